import { formatDuration } from '../../clock/index.ts';
import type { CommandResult } from '../../exec/index.ts';
import {
  findLeader,
  inScope,
  listScopes,
  removeScope,
  scopeMembers,
  thawScope,
  type CgroupLayout,
} from '../host/cgroups.ts';
import { LocalMachineError } from '../errors.ts';
import { readText } from '../../file/index.ts';
import { waitUntil, type HostPorts } from '../host/host-ports.ts';
import { machineName, nodeScope, tpmScope } from '../network/names.ts';
import { ensureSwitch, disconnectNode, type NodeNetwork } from '../network/cluster-network.ts';
import { VirtualDriver, type VirtualDriverOptions } from '../vm/virtual-driver.ts';
import { ContainerDriver } from './container-driver.ts';
import type { MachineDriver, MachineType } from './machine-driver.ts';
import type { ClusterPaths, NodePaths } from './node-paths.ts';
import type { LocalNodeRecord } from './node-record.ts';
import { atTerminal } from './nspawn-command.ts';
import {
  isTpmListening,
  manufactureTpm,
  readEkFingerprint,
  startTpm,
  type SoftwareTpm,
} from './software-tpm.ts';

const TPM_START_MS = 30_000;
const DEATH_MS = 20_000;
const POLL_MS = 50;
const CONSOLE_TAIL = 1500;

/**
 * One local machine, a container or a virtual machine. Its configuration is in its directory. Whether it runs is read from the kernel each time (the processes in its
 * cgroup) and not from a record, which could be wrong after a crash.
 */
export class LocalNode {
  readonly record: LocalNodeRecord;
  readonly paths: NodePaths;
  readonly #host: HostPorts;
  readonly #layout: CgroupLayout;
  readonly #network: NodeNetwork;
  readonly #cluster: ClusterPaths;
  readonly #driver: MachineDriver;

  constructor(options: VirtualDriverOptions) {
    this.#host = options.host;
    this.#layout = options.layout;
    this.#network = options.network;
    this.#cluster = options.cluster;
    this.paths = options.paths;
    this.record = options.record;
    this.#driver = this.type === 'vm' ? new VirtualDriver(options) : new ContainerDriver(options);
  }

  get type(): MachineType {
    return this.record.vm === undefined ? 'container' : 'vm';
  }

  get name(): string {
    return this.record.name;
  }

  get address(): string {
    return this.record.address;
  }

  async isRunning(signal: AbortSignal): Promise<boolean> {
    return this.#driver.isRunning(await this.#members(signal));
  }

  /** Starts the machine unless it runs. Resolves when the systemd of a container accepts commands, and a virtual machine has left its firmware. */
  async start(signal: AbortSignal): Promise<void> {
    if (await this.isRunning(signal)) return;
    await this.cutPower(signal); // removes the rest of an interrupted start
    await this.#driver.prepare(signal);
    await ensureSwitch(this.#host, this.#network, signal);
    try {
      await this.#driver.connect(signal);
      await this.#startTpm(signal);
      await this.#startProgram(signal);
      await this.#waitForBoot(signal);
    } catch (error) {
      // Uses a new signal, because the signal of the caller may have fired. An error here is ignored, because the error
      // that made the start fail is reported.
      await this.cutPower(new AbortController().signal).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Shuts the machine down, and cuts its power if it still runs after `withinMs`. Returns whether the shutdown or the
   * power cut ended the machine.
   */
  async stop(signal: AbortSignal, withinMs = this.#driver.limits.powerOffMs): Promise<'orderly' | 'cut'> {
    const { clock } = this.#host;
    let askedMs = -Infinity;
    const off = await waitUntil(this.#host, { withinMs, everyMs: POLL_MS, signal }, async () => {
      const pids = await this.#members(signal);
      if (pids.length === 0) return true;
      if (clock.monotonicMs() - askedMs < this.#driver.limits.repeatPowerOffMs) return false;
      askedMs = clock.monotonicMs();
      await this.#driver.requestPowerOff(pids, signal);
      return false;
    });
    await this.cutPower(signal);
    return off ? 'orderly' : 'cut';
  }

  /**
   * Ends the machine and its TPM like a power failure, if it runs. Kills process 1 of the machine first,
   * because the kernel then kills all processes in its namespace. If only the supervisor of the container
   * (systemd-nspawn) were killed, the machine would go on running.
   */
  async cutPower(signal: AbortSignal): Promise<void> {
    const { number } = this.#network;
    const mine = [nodeScope(number, this.name), tpmScope(number, this.name)];
    const scopes = (await listScopes(this.#host, this.#layout, number)).filter((each) => mine.includes(each));
    for (const scope of scopes) await this.#killAll(scope, signal);
    await disconnectNode(this.#host, this.#network, this.record, signal);
    // systemd-nspawn removes this directory only when it ends by itself.
    await this.#host.files.remove(`/run/systemd/nspawn/propagate/${machineName(number, this.name)}`);
  }

  /** Runs a program in the machine and returns its output. */
  async exec(
    program: readonly [string, ...string[]],
    options: {
      readonly signal: AbortSignal;
      readonly input?: string | Uint8Array;
      readonly env?: Readonly<Record<string, string>>;
      readonly okExitCodes?: readonly number[];
      readonly timeoutMs?: number;
    },
  ): Promise<CommandResult> {
    const { env, ...rest } = options;
    return this.#host.commands.run({ argv: await this.#enter(program, env ?? {}, options.signal), ...rest });
  }

  /** Runs a program in the machine with the standard streams of this process. Resolves with its exit code. */
  async attach(
    program: readonly [string, ...string[]],
    options: {
      readonly signal: AbortSignal;
      readonly env?: Readonly<Record<string, string>>;
      /** Whether to run the program in its own terminal; the standard streams must be a terminal. */
      readonly terminal?: boolean;
    },
  ): Promise<number> {
    const argv = await this.#enter(program, options.env ?? {}, options.signal);
    const run = options.terminal === true ? atTerminal(argv) : argv;
    return this.#host.processes.runAttached({ argv: run, signal: options.signal });
  }

  /** The identity of the machine: `sha256:…` of the endorsement key of its TPM. */
  async ekFingerprint(): Promise<string | undefined> {
    return readEkFingerprint(this.#host, this.#tpm());
  }

  /** `sha256:…` of the agent's key for `cluster init --fingerprint`; undefined until the agent runs. */
  agentFingerprint(): Promise<string | undefined> {
    return this.#driver.agentFingerprint();
  }

  async #startProgram(signal: AbortSignal): Promise<void> {
    const { console } = this.paths;
    // A new console for each start; the previous one is kept.
    if ((await this.#host.files.stat(console)) !== undefined) {
      await this.#host.files.rename(console, `${console}.before`);
    }
    const { argv: program, ...where } = await this.#driver.program(signal);
    const scope = nodeScope(this.#network.number, this.name);
    const argv = inScope(this.#layout, { launch: this.#cluster.launch, scope, log: console }, program);
    await this.#host.processes.startDetached({ argv, ...where });
  }

  async #startTpm(signal: AbortSignal): Promise<void> {
    const tpm = this.#tpm();
    const { launch, manufacturer } = this.#cluster;
    await manufactureTpm(this.#host, this.#layout, { tpm, manufacturer, launch, signal });
    await startTpm(this.#host, this.#layout, { tpm, launch, speaks: this.#driver.tpmInterface });
    const up = await waitUntil(this.#host, { withinMs: TPM_START_MS, everyMs: POLL_MS, signal }, () =>
      isTpmListening(this.#host, tpm),
    );
    if (!up)
      throw new LocalMachineError(
        'localmachines-boot-failed',
        `TPM of ${this.name} did not start: see ${tpm.directory}/swtpm.log`,
      );
  }

  async #waitForBoot(signal: AbortSignal): Promise<void> {
    const { bootMs: withinMs, bootPollMs: everyMs } = this.#driver.limits;
    let ended = false;
    const up = await waitUntil(this.#host, { withinMs, everyMs, signal }, async () => {
      const pids = await this.#members(signal);
      if (await this.#driver.isRunning(pids)) return this.#driver.hasBooted(pids, signal);
      return (ended = ended || (await this.#hasEnded(signal)));
    });
    if (up && !ended) return;
    const tail = ((await readText(this.#host.files, this.paths.console)) ?? '').slice(-CONSOLE_TAIL).trim();
    const why = ended
      ? 'the machine has exited'
      : `the machine is not ready within ${formatDuration(withinMs)}`;
    throw new LocalMachineError(
      'localmachines-boot-failed',
      `node ${this.name} did not boot: ${why}; ${this.paths.console}: ${tail}`,
    );
  }

  /**
   * Whether the machine has started (its program has written to the console) and has no processes any more.
   */
  async #hasEnded(signal: AbortSignal): Promise<boolean> {
    const console = await readText(this.#host.files, this.paths.console);
    return console !== undefined && console !== '' && (await this.#members(signal)).length === 0;
  }

  async #killAll(scope: string, signal: AbortSignal): Promise<void> {
    const members = (): Promise<readonly number[]> => scopeMembers(this.#host, this.#layout, scope, signal);
    const leader = await findLeader(this.#host, await members());
    if (leader !== undefined) this.#host.processes.sendSignal(leader, 'SIGKILL');
    const dead = await waitUntil(this.#host, { withinMs: DEATH_MS, everyMs: POLL_MS, signal }, async () => {
      const left = await members();
      for (const pid of left) this.#host.processes.sendSignal(pid, 'SIGKILL');
      if (left.length > 0) await thawScope(this.#host, this.#layout, scope, signal);
      return left.length === 0;
    });
    if (!dead)
      throw new LocalMachineError(
        'localmachines-not-removed',
        `processes of ${scope} still run after SIGKILL`,
      );
    await removeScope(this.#host, this.#layout, scope, signal);
  }

  #tpm(): SoftwareTpm {
    return { directory: this.paths.tpm, scope: tpmScope(this.#network.number, this.name) };
  }

  async #enter(
    program: readonly string[],
    env: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<readonly [string, ...string[]]> {
    return this.#driver.enter(await this.#members(signal), program, env);
  }

  async #members(signal: AbortSignal): Promise<readonly number[]> {
    return scopeMembers(this.#host, this.#layout, nodeScope(this.#network.number, this.name), signal);
  }
}
