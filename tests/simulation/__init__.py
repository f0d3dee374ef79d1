"""A deterministic simulation of whole applications: the real engine on a fake log and fake disks."""
