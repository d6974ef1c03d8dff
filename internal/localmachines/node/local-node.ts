import type { CommandResult } from '../../exec/index.ts';
import {
  findLeader,
  inScope,
  joinCgroupsOf,
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
import { ensureSwitch, connectNode, disconnectNode, type NodeNetwork } from '../network/cluster-network.ts';
import { ensureDisk, writeMachineFiles } from './node-disk.ts';
import type { ClusterPaths, NodePaths } from './node-paths.ts';
import type { LocalNodeRecord } from './node-record.ts';
import { atTerminal, enterArgv, nspawnArgv, POWER_OFF_SIGNAL } from './nspawn-command.ts';
import {
  isTpmListening,
  manufactureTpm,
  readEkFingerprint,
  startTpm,
  type SoftwareTpm,
} from './software-tpm.ts';

const BOOT_MS = 120_000;
const TPM_START_MS = 30_000;
const POWER_OFF_MS = 90_000;
const DEATH_MS = 20_000;
const POLL_MS = 50;
/** Each look into a machine that boots starts a dozen processes, which it and those that boot beside it would have to wait for. */
const BOOT_POLL_MS = 200;
const CONSOLE_TAIL = 1500;

/**
 * One local machine. What it *is* lies in its directory; whether it *runs* is asked of the kernel each
 * time (its cgroup and who is in there), never of a record, so that no crash can make it wrong.
 */
export class LocalNode {
  readonly record: LocalNodeRecord;
  readonly paths: NodePaths;
  readonly #host: HostPorts;
  readonly #layout: CgroupLayout;
  readonly #network: NodeNetwork;
  readonly #cluster: ClusterPaths;

  constructor(options: {
    readonly host: HostPorts;
    readonly layout: CgroupLayout;
    readonly network: NodeNetwork;
    readonly cluster: ClusterPaths;
    readonly paths: NodePaths;
    readonly record: LocalNodeRecord;
  }) {
    this.#host = options.host;
    this.#layout = options.layout;
    this.#network = options.network;
    this.#cluster = options.cluster;
    this.paths = options.paths;
    this.record = options.record;
  }

  get name(): string {
    return this.record.name;
  }

  get address(): string {
    return this.record.address;
  }

  async isRunning(signal: AbortSignal): Promise<boolean> {
    return (await this.#leader(signal)) !== undefined;
  }

  /** Switches the machine on and resolves when its systemd takes commands. Fine when it is on. */
  async start(signal: AbortSignal): Promise<void> {
    if (await this.isRunning(signal)) return;
    await this.cutPower(signal); // what an interrupted start has left
    await writeMachineFiles(this.#host, this.#cluster, this.paths, this.record);
    await ensureDisk(this.#host, this.paths, this.record, signal);
    await ensureSwitch(this.#host, this.#network, signal);
    try {
      await connectNode(this.#host, this.#network, this.record, signal);
      await this.#startTpm(signal);
      await this.#startContainer();
      await this.#waitForBoot(signal);
    } catch (error) {
      // Off is off; the first error is the one to tell. A signal of our own: the caller's may have fired.
      await this.cutPower(new AbortController().signal).catch(() => undefined);
      throw error;
    }
  }

  /** Orderly power-off; after `withinMs` the power is cut. Says which of the two it was. */
  async stop(signal: AbortSignal, withinMs = POWER_OFF_MS): Promise<'orderly' | 'cut'> {
    const leader = await this.#leader(signal);
    if (leader !== undefined) this.#host.processes.sendSignal(leader, POWER_OFF_SIGNAL);
    const off = await waitUntil(this.#host, { withinMs, everyMs: POLL_MS, signal }, async () => {
      return (await this.#members(signal)).length === 0;
    });
    await this.cutPower(signal);
    return off ? 'orderly' : 'cut';
  }

  /**
   * As if the plug were pulled: no process of the machine or its TPM runs another instruction. The
   * leader goes first, since the kernel ends all of its namespace with it; the container's supervisor
   * alone would leave the machine running. Fine when it is off.
   */
  async cutPower(signal: AbortSignal): Promise<void> {
    const { number } = this.#network;
    const mine = [nodeScope(number, this.name), tpmScope(number, this.name)];
    const scopes = (await listScopes(this.#host, this.#layout, number)).filter((each) => mine.includes(each));
    for (const scope of scopes) await this.#killAll(scope, signal);
    await disconnectNode(this.#host, this.#network, this.record, signal);
    // systemd-nspawn removes it when it ends by itself.
    await this.#host.files.remove(`/run/systemd/nspawn/propagate/${machineName(number, this.name)}`);
  }

  /** Runs a program in the machine and collects its output. */
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

  /** Runs a program in the machine with this process's standard streams; resolves with its exit code. */
  async attach(
    program: readonly [string, ...string[]],
    options: {
      readonly signal: AbortSignal;
      readonly env?: Readonly<Record<string, string>>;
      /** Our standard streams are a terminal, and the program is to have one too. */
      readonly terminal?: boolean;
    },
  ): Promise<number> {
    const argv = await this.#enter(program, options.env ?? {}, options.signal);
    const run = options.terminal === true ? atTerminal(argv) : argv;
    return this.#host.processes.runAttached({ argv: run, signal: options.signal });
  }

  /** `sha256:…` of the TPM's endorsement key: who this machine is. */
  async ekFingerprint(): Promise<string | undefined> {
    return readEkFingerprint(this.#host, this.#tpm());
  }

  /** `sha256:…` of the agent's key as the agent wrote it down, once it runs: what `cluster init --fingerprint` takes. */
  async agentFingerprint(): Promise<string | undefined> {
    const text = await readText(this.#host.files, `${this.paths.data}/cluster/machine/fingerprint`);
    return text === undefined || text.trim() === '' ? undefined : text.trim();
  }

  async #startContainer(): Promise<void> {
    const { console } = this.paths;
    // One console a start: what it says is about this start, and that of the one before is kept.
    if ((await this.#host.files.stat(console)) !== undefined) {
      await this.#host.files.rename(console, `${console}.before`);
    }
    const program = nspawnArgv({
      network: this.#network,
      cluster: this.#cluster,
      node: this.paths,
      record: this.record,
    });
    const scope = nodeScope(this.#network.number, this.name);
    const argv = inScope(this.#layout, { launch: this.#cluster.launch, scope, log: console }, program);
    await this.#host.processes.startDetached({ argv });
  }

  async #startTpm(signal: AbortSignal): Promise<void> {
    const tpm = this.#tpm();
    const { launch, manufacturer } = this.#cluster;
    await manufactureTpm(this.#host, this.#layout, { tpm, manufacturer, launch, signal });
    await startTpm(this.#host, this.#layout, { tpm, launch });
    const up = await waitUntil(this.#host, { withinMs: TPM_START_MS, everyMs: POLL_MS, signal }, () =>
      isTpmListening(this.#host, tpm),
    );
    if (!up)
      throw new LocalMachineError(
        'localmachines-boot-failed',
        `starting the TPM of ${this.name}: see ${tpm.directory}/swtpm.log`,
      );
  }

  async #waitForBoot(signal: AbortSignal): Promise<void> {
    let ended = false;
    const up = await waitUntil(this.#host, { withinMs: BOOT_MS, everyMs: BOOT_POLL_MS, signal }, async () => {
      const leader = await this.#leader(signal);
      if (leader === undefined) return (ended = ended || (await this.#hasEnded(signal)));
      const argv = ['systemctl', 'is-active', '--quiet', 'basic.target'] as const;
      const answer = await this.exec([...argv], { okExitCodes: [0, 1, 3, 4], timeoutMs: 5000, signal }).catch(
        () => {
          signal.throwIfAborted();
          return undefined; // the machine has no namespaces to enter yet
        },
      );
      return answer?.exitCode === 0;
    });
    if (up && !ended) return;
    const tail = ((await readText(this.#host.files, this.paths.console)) ?? '').slice(-CONSOLE_TAIL).trim();
    const why = ended ? 'it ended' : `not up within ${BOOT_MS} ms`;
    throw new LocalMachineError(
      'localmachines-boot-failed',
      `booting ${this.name}: ${why}; ${this.paths.console}: ${tail}`,
    );
  }

  /** The supervisor was there and is gone; while it only just starts its scope has somebody in it. */
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
        `ending processes of ${scope}: still there after SIGKILL`,
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
    const leader = await this.#leader(signal);
    const cgroups =
      leader === undefined ? undefined : await readText(this.#host.files, `/proc/${leader}/cgroup`);
    if (leader === undefined || cgroups === undefined) {
      throw new LocalMachineError(
        'localmachines-not-running',
        `running ${program[0] ?? ''} on ${this.name}: it is off`,
      );
    }
    const join = joinCgroupsOf(this.#layout, cgroups);
    return ['sh', this.#cluster.launch, ...join, '--', ...enterArgv(leader, program, env)];
  }

  async #members(signal: AbortSignal): Promise<readonly number[]> {
    return scopeMembers(this.#host, this.#layout, nodeScope(this.#network.number, this.name), signal);
  }

  async #leader(signal: AbortSignal): Promise<number | undefined> {
    return findLeader(this.#host, await this.#members(signal));
  }
}
