import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

const common = { fault: 'operator', retryable: true } as const;

export const preflightErrors = defineErrors({
  'preflight-swap': {
    ...common,
    exit: 'swap',
    meaning: 'Swap is on, and the kubelet does not start with it. Nothing was changed.',
    fix: 'Turn it off with `swapoff -a` and take it out of /etc/fstab, then run the same command again.',
  },
  'preflight-port': {
    ...common,
    exit: 'port',
    meaning: 'A port that the cluster needs is in use on this machine. Nothing was changed.',
    fix: 'Stop the program that listens there (`ss -ltnp` names it), then run the same command again.',
  },
  'preflight-address': {
    ...common,
    exit: 'address',
    meaning:
      'The machine has no address that other machines could use, or not the one it is configured with.',
    fix: 'Give the machine a fixed address (or see why DHCP gives it none), or correct `address` in /etc/cluster/provisioning.json and restart bootstrapper.service; then run the same command again.',
  },
  'preflight-address-changed': {
    ...common,
    exit: 'addressChanged',
    meaning:
      'The machine no longer has the address that etcd and the certificates of this node were made for. Nothing of them was changed.',
    fix: 'Give the machine its address back (a fixed one, or a reservation for it at the DHCP server): it goes on by itself; an init goes on with the same command.',
  },
  'preflight-hostname': {
    ...common,
    exit: 'hostname',
    meaning:
      'The node’s name resolves to an address that is not this machine’s: two machines would answer to it.',
    fix: 'Correct the DNS record or /etc/hosts, or give the node another name (`firstNode.name` in cluster.yaml), then run the same command again.',
  },
  'preflight-disk': {
    ...common,
    exit: 'diskFull',
    meaning: 'There is too little disk space for the cluster’s components. Nothing was changed.',
    fix: 'Free space on the file system named in the message, then run the same command again.',
  },
  'preflight-read-only': {
    ...common,
    exit: 'readOnly',
    meaning: 'A folder that the cluster must write to can not be written. Nothing was changed.',
    fix: 'Look for disk errors in the kernel log and remount the file system writable, then run the same command again.',
  },
  'preflight-kernel': {
    ...common,
    exit: 'preflight',
    meaning: 'The kernel lacks something that Kubernetes needs. Nothing was changed.',
    fix: 'Load the module or set the parameter named in the message, then run the same command again.',
  },
  'preflight-program': {
    ...common,
    exit: 'preflight',
    meaning: 'A program that Kubernetes needs on every node is not on this machine.',
    fix: 'Install the package named in the message, then run the same command again.',
  },
});

export type PreflightErrorCode = keyof typeof preflightErrors;

export class PreflightError extends CodedError<PreflightErrorCode> {
  constructor(code: PreflightErrorCode, message: string, options?: CodedErrorOptions) {
    super(preflightErrors, code, message, options);
  }
}
