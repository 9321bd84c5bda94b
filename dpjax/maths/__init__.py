"""Mathematics that does not depend on learners: sums, barriers, designs, divergences, laws."""
