/** Components of the bundle on this machine: uploaded by the owner, fetched from curators, installed for the workers. */
export { type ComponentSource, createBlobUploads, createComponentSource } from './component-store.ts';
export { fetchBlob } from './fetch-blob.ts';
