"""What other projects' suites import: strategies, corners and assert helpers."""
