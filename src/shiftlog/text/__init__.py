"""Text, figures and names prepared for a reader; every face and service uses these and no second version."""
