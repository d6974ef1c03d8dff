/**
 * Components of the bundle on this machine. The owner uploads them or the agent fetches them from curators,
 * and the agent installs them.
 */
export { type ComponentSource, createBlobUploads, createComponentSource } from './component-store.ts';
export { fetchBlob } from './fetch-blob.ts';
