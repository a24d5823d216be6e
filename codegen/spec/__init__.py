"""Read specs into typed models and check them."""
