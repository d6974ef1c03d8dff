/**
 * S3-compatible object stores (a replaceable interface): list, upload, read and delete objects of one bucket, over HTTP or HTTPS with its own CA.
 * Requests are signed by `aws4fetch`; everything that a store answers is untrusted and limited.
 */
export { parseStoreCredentials, renderStoreCredentials, type StoreCredentials } from './credentials.ts';
export { ObjectStoreError } from './errors.ts';
export { ObjectStore } from './object-store.ts';
