"""What is shown while a plan is carried out."""
