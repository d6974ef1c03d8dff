/**
 * The exit codes of every program, by name. One table, printed by `cluster help exit-codes`.
 * Numbers never change their meaning; scripts rely on them.
 */
export const EXIT_CODES = {
  ok: { number: 0, meaning: 'done, or already so' },
  internal: { number: 1, meaning: 'a defect of this program; please report it' },
  usage: { number: 2, meaning: 'the command line or a configuration file is wrong; nothing was changed' },
  preflight: { number: 3, meaning: 'this machine lacks something the command needs; nothing was changed' },
  refused: { number: 4, meaning: 'authentication, attestation or authorization was refused' },
  precondition: { number: 5, meaning: 'the state found is not the state the command needs' },
  unreachable: { number: 6, meaning: 'a peer could not be reached, or a wait timed out' },
  partial: { number: 7, meaning: 'part of the work is done; the same command goes on from there' },
  needsReset: {
    number: 8,
    meaning:
      'part of the work is done and cannot go on; the machine must be made fresh (`cluster node reset --help`)',
  },
  locked: { number: 9, meaning: 'another process holds the lock' },
  unhealthy: { number: 10, meaning: 'the command ran; what it looked at is not healthy' },
  diskFull: { number: 20, meaning: 'a disk is full' },
  readOnly: { number: 21, meaning: 'a disk cannot be written' },
  address: {
    number: 22,
    meaning: 'a machine has no address that others could use, or not the one it is to have',
  },
  hostname: { number: 23, meaning: 'the name of a machine is known for another address' },
  port: { number: 24, meaning: 'a port that is needed is in use' },
  swap: { number: 25, meaning: 'swap is on' },
  clock: { number: 26, meaning: 'two clocks are too far apart' },
  image: { number: 27, meaning: 'a component or container image is damaged' },
  kubelet: { number: 28, meaning: 'the kubelet does not stay up' },
  chart: { number: 29, meaning: 'a chart cannot be read or rendered' },
  chartTimeout: { number: 30, meaning: 'what a chart made did not become ready in time' },
  addressChanged: { number: 31, meaning: 'a machine no longer has the address that it became a node with' },
  hungUp: {
    number: 129,
    meaning: 'the terminal was closed (SIGHUP); what was running on nodes goes on',
  },
  interrupted: { number: 130, meaning: 'interrupted (SIGINT); what was running on nodes goes on' },
  outputClosed: {
    number: 141,
    meaning:
      'nobody reads the output of a command that only prints (as with SIGPIPE); commands that change something go on to their end',
  },
  terminated: { number: 143, meaning: 'terminated (SIGTERM); what was running on nodes goes on' },
} as const satisfies Record<string, { number: number; meaning: string }>;

export type ExitName = keyof typeof EXIT_CODES;
