/**
 * The exit codes of every program, by name; `cluster help exit-codes` prints this table. Numbers never
 * change their meaning, because scripts rely on them.
 */
export const EXIT_CODES = {
  ok: { number: 0, meaning: 'success, also when nothing had to be done' },
  internal: { number: 1, meaning: 'internal error; please report it' },
  usage: { number: 2, meaning: 'invalid command line or configuration file; nothing was changed' },
  preflight: { number: 3, meaning: 'a requirement of this machine is not met; nothing was changed' },
  refused: { number: 4, meaning: 'authentication, attestation or authorization failed' },
  precondition: { number: 5, meaning: 'the state of the cluster or machine does not allow the command' },
  unreachable: { number: 6, meaning: 'a peer is unreachable, or a wait timed out' },
  partial: { number: 7, meaning: 'partly done; run the same command again to continue' },
  needsReset: {
    number: 8,
    meaning: 'partly done and cannot continue; reset the machine (`cluster node reset --help`)',
  },
  locked: { number: 9, meaning: 'locked by another process' },
  unhealthy: { number: 10, meaning: 'the command succeeded and found something unhealthy' },
  warnings: {
    number: 11,
    meaning: 'the command succeeded and found nothing broken, but something to look at',
  },
  diskFull: { number: 20, meaning: 'a disk is full' },
  readOnly: { number: 21, meaning: 'a disk is read-only' },
  address: {
    number: 22,
    meaning: 'a machine has no usable address, or not the configured one',
  },
  hostname: { number: 23, meaning: 'the hostname of a machine resolves to another address' },
  port: { number: 24, meaning: 'a required port is in use' },
  swap: { number: 25, meaning: 'swap is enabled' },
  clock: { number: 26, meaning: 'the clocks of two machines differ too much' },
  image: { number: 27, meaning: 'a component or container image is damaged' },
  kubelet: { number: 28, meaning: 'the kubelet keeps failing' },
  chart: { number: 29, meaning: 'a chart cannot be read or rendered' },
  chartTimeout: { number: 30, meaning: 'the resources of a chart did not become ready in time' },
  addressChanged: { number: 31, meaning: 'a node no longer has the address with which it joined' },
  hungUp: {
    number: 129,
    meaning: 'the terminal was closed (SIGHUP); operations on nodes continue',
  },
  interrupted: { number: 130, meaning: 'interrupted (SIGINT); operations on nodes continue' },
  outputClosed: {
    number: 141,
    meaning: 'the output was closed (as with SIGPIPE); only commands that change nothing stop for that',
  },
  terminated: { number: 143, meaning: 'terminated (SIGTERM); operations on nodes continue' },
} as const satisfies Record<string, { number: number; meaning: string }>;

/** Name of an exit code. */
export type ExitName = keyof typeof EXIT_CODES;
