/**
 * Objects of Kubernetes as an API server stores them in etcd, in protobuf: an envelope with the kind, and the fields of the object. Used
 * where no API server runs yet.
 */
export { contentOf, fieldsOf, STORED_PREFIX, type StoredField } from './stored-fields.ts';
export { endpointsWithout, nodeOfPod, slicesWithout } from './stored-nodes.ts';
