//! The secret of a database over its life.

use crate::harness::*;
use base::env::sim::SimEnv;

#[test]
fn a_secret_stays_over_restarts_and_terms_and_differs_between_databases() {
    run(async || {
        let (machine, database) = new().await;
        let secret = database.secret().to_vec();
        assert!(secret.len() >= 32 && secret.iter().any(|byte| *byte != 0));
        drop(database);
        let again = open(&machine).await.unwrap();
        assert_eq!(again.secret(), secret);
        let other = open(&SimEnv::new(1)).await.unwrap();
        assert_ne!(other.secret(), secret);
    });
}
