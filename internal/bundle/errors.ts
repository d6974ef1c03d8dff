import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

/** The errors of manifests and stores. */
export const bundleErrors = defineErrors({
  'bundle-manifest-invalid': fault.peer.precondition(
    'A bundle manifest has a missing, unknown or invalid field. It was not used.',
    'Build the bundle again with `cluster bundle build`, or copy the manifest again from where it was built.',
  ),
  'bundle-blob-missing': fault.system.precondition(
    'A required component is not in the store.',
    'Run `cluster bundle build` (or `cluster bundle fetch`): it builds only the missing components.',
  ),
  'bundle-blob-corrupt': retryable.peer.image(
    'The hash of a component differs from its hash in the manifest. The component was not used.',
    'Run `cluster bundle verify` to list all damaged components, delete their files, then run `cluster bundle build`.',
  ),
  'bundle-offset': retryable.peer.precondition(
    'A piece of a component was sent for another offset than expected.',
    'Run the same command again: it resumes at the right offset.',
  ),
  'bundle-too-long': fault.peer.refused(
    'More bytes of a component were sent than its manifest says.',
    'Use the manifest and the components of the same bundle.',
  ),
  'bundle-not-found': fault.operator.precondition(
    'This machine has no bundle for the requested version of Kubernetes.',
    'Run `cluster bundle build --kubernetes-version VERSION` with the version that the message names.',
  ),
  'bundle-version-unknown': fault.operator.usage(
    'This version of Kubernetes is not supported.',
    'Use one of the supported versions in the message.',
  ),
});

/** A manifest or a component is missing or invalid. */
export class BundleError extends errorClass(bundleErrors) {}
