"""A deterministic simulation of applications: the real engine on a fake log and fake disks."""
