"""Plans that are proposed, approved and carried out night after night, as policies allow."""
