-- The trigrams alone serve searches for substrings.

DROP TABLE IF EXISTS gram_blocks;
