"""What random text, words and other languages look like; decides nothing."""
