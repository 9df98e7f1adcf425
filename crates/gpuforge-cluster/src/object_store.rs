//! Object stores: `s3://` URLs resolved from the environment when first named.

use std::sync::Arc;

use datafusion::{
    error::{DataFusionError, Result},
    execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry},
};
use object_store::{ObjectStore, aws::AmazonS3Builder};
use url::Url;

/// DataFusion's registry plus S3-compatible stores.
#[derive(Debug, Default)]
pub struct S3Registry(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for S3Registry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        match (self.0.get_store(url), url.scheme()) {
            (Err(_), "s3" | "s3a") => {
                let bucket = url.host_str().unwrap_or_default();
                let built = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
                let store: Arc<dyn ObjectStore> =
                    Arc::new(built.map_err(|e| DataFusionError::ObjectStore(Box::new(e)))?);
                self.0.register_store(url, store.clone());
                Ok(store)
            }
            (found, _) => found,
        }
    }
}
