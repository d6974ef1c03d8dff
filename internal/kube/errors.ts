import { defineErrors, errorClass } from '../errors/index.ts';

export const kubeErrors = defineErrors({
  'kube-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The Kubernetes API did not answer.',
    fix: 'Check that a control-plane node runs and that its port 6443 can be reached from here.',
  },
  'kube-other-authority': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'The server at the address of the Kubernetes API has a certificate that the cluster did not issue for this name.',
    fix: 'Check the address; add it to `apiServer.extraSans` if the API is to be reached under it.',
  },
  'kube-refused': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: 'The Kubernetes API does not accept these credentials, or does not allow them this.',
    fix: 'The certificate in the kubeconfig may have run out, or be of another cluster: an owner makes a new one with `cluster kubeconfig --renew`.',
  },
  'kube-not-found': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The Kubernetes API knows no object of this name.',
    fix: 'Look at the name in the message.',
  },
  'kube-failed': {
    fault: 'peer',
    exit: 'unhealthy',
    retryable: true,
    meaning: 'The Kubernetes API answered with an error.',
    fix: 'Look at the log of kube-apiserver on the node; shortly after a start the same call may succeed.',
  },
  'kube-not-now': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning:
      'The Kubernetes API does not allow this now: a disruption budget would be broken, or it has too much to do.',
    fix: 'Look at the disruption budget in the message; more replicas elsewhere make room for it.',
  },
  'kube-config-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'A kubeconfig cannot be read as one.',
    fix: 'Correct or move away the file named in the message.',
  },
  'kube-wait-timeout': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'Something in the cluster did not become ready in time; the message says what it waits for.',
    fix: 'Look at what is named in the message with `kubectl describe`; the same command waits again.',
  },
});

export type KubeErrorCode = keyof typeof kubeErrors;

export class KubeError extends errorClass(kubeErrors) {}
