/** Components of the bundle on this machine: uploaded by the owner, fetched from curators, installed for the workers. */
export { createBlobUploads, createComponentSource } from './component-store.ts';
export { fetchBlob } from './fetch-blob.ts';
