import { defineErrors, errorClass } from '../errors/index.ts';

export const bundleErrors = defineErrors({
  'bundle-manifest-invalid': {
    fault: 'peer',
    exit: 'precondition',
    retryable: false,
    meaning:
      'A bundle manifest is not one: a field is missing, unknown or impossible. Nothing of it was used.',
    fix: 'Make the bundle again with `cluster bundle build`, or get the manifest from where it was made.',
  },
  'bundle-blob-missing': {
    fault: 'system',
    exit: 'precondition',
    retryable: false,
    meaning: 'The store does not hold a component that is needed.',
    fix: 'Run `cluster bundle build` (or `cluster bundle fetch`); it only makes what is missing.',
  },
  'bundle-blob-corrupt': {
    fault: 'peer',
    exit: 'image',
    retryable: true,
    meaning: 'The bytes of a component are not the bytes its manifest names. They were not used.',
    fix: 'Run `cluster bundle verify` to see every damaged component, delete those files, then run `cluster bundle build`.',
  },
  'bundle-offset': {
    fault: 'peer',
    exit: 'precondition',
    retryable: true,
    meaning: 'A piece of a component does not start where the pieces before it end.',
    fix: 'Run the same command again: it asks how much is there and goes on from that byte.',
  },
  'bundle-too-long': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'More bytes were sent for a component than its manifest says it has.',
    fix: 'The sender and the manifest are not of the same bundle: start again with one of them.',
  },
  'bundle-not-found': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'This machine has no bundle for the requested version of Kubernetes.',
    fix: 'Run `cluster bundle build`.',
  },
  'bundle-version-unknown': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'There is no recipe for this version of Kubernetes.',
    fix: 'Choose one of the versions named in the message.',
  },
});

export type BundleErrorCode = keyof typeof bundleErrors;

export class BundleError extends errorClass(bundleErrors) {}
