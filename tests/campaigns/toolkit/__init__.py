"""What the campaigns and the broker tests share: processes and a steady load."""
