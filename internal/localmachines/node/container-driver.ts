import { readText } from '../../file/index.ts';
import { LocalMachineError } from '../errors.ts';
import { findLeader, joinCgroupsOf, type CgroupLayout } from '../host/cgroups.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { connectNode, type NodeNetwork } from '../network/cluster-network.ts';
import type { MachineDriver } from './machine-driver.ts';
import { ensureDisk, writeMachineFiles } from './node-disk.ts';
import type { ClusterPaths, NodePaths } from './node-paths.ts';
import type { LocalNodeRecord } from './node-record.ts';
import { enterArgv, nspawnArgv, POWER_OFF_SIGNAL } from './nspawn-command.ts';

/** What a driver needs of its machine. */
export interface DriverOptions {
  readonly host: HostPorts;
  readonly layout: CgroupLayout;
  readonly network: NodeNetwork;
  readonly cluster: ClusterPaths;
  readonly paths: NodePaths;
  readonly record: LocalNodeRecord;
}

/** A machine that is a container of systemd-nspawn. It shares the kernel of the host. */
export class ContainerDriver implements MachineDriver {
  readonly limits = {
    bootMs: 120_000,
    // Each poll starts a dozen processes, which slow down the machines that are booting.
    bootPollMs: 200,
    powerOffMs: 90_000,
    repeatPowerOffMs: Infinity,
  };
  readonly tpmInterface = 'commands';
  readonly #options: DriverOptions;

  constructor(options: DriverOptions) {
    this.#options = options;
  }

  async prepare(signal: AbortSignal): Promise<void> {
    const { host, cluster, paths, record } = this.#options;
    await writeMachineFiles(host, cluster, paths, record);
    await ensureDisk(host, paths, record, signal);
  }

  connect(signal: AbortSignal): Promise<void> {
    const { host, network, record } = this.#options;
    return connectNode(host, network, record, signal);
  }

  program(): Promise<{ readonly argv: readonly string[] }> {
    const { network, cluster, paths: node, record } = this.#options;
    return Promise.resolve({ argv: nspawnArgv({ network, cluster, node, record }) });
  }

  /** While process 1 of the machine runs. */
  async isRunning(pids: readonly number[]): Promise<boolean> {
    return (await findLeader(this.#options.host, pids)) !== undefined;
  }

  /** The systemd of the machine accepts commands. */
  async hasBooted(pids: readonly number[], signal: AbortSignal): Promise<boolean> {
    const program = ['systemctl', 'is-active', '--quiet', 'basic.target'];
    const options = { okExitCodes: [0, 1, 3, 4], timeoutMs: 5000, signal };
    try {
      const argv = await this.enter(pids, program, {});
      return (await this.#options.host.commands.run({ argv, ...options })).exitCode === 0;
    } catch {
      signal.throwIfAborted();
      return false; // the namespaces of the machine do not exist yet
    }
  }

  async requestPowerOff(pids: readonly number[]): Promise<void> {
    const { host } = this.#options;
    const leader = await findLeader(host, pids);
    if (leader !== undefined) host.processes.sendSignal(leader, POWER_OFF_SIGNAL);
  }

  async agentFingerprint(): Promise<string | undefined> {
    const { host, paths } = this.#options;
    const text = await readText(host.files, `${paths.data}/cluster/machine/fingerprint`);
    return text === undefined || text.trim() === '' ? undefined : text.trim();
  }

  async enter(
    pids: readonly number[],
    program: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<readonly [string, ...string[]]> {
    const { host, layout, cluster, record } = this.#options;
    const leader = await findLeader(host, pids);
    const cgroups = leader === undefined ? undefined : await readText(host.files, `/proc/${leader}/cgroup`);
    if (leader === undefined || cgroups === undefined) {
      throw new LocalMachineError(
        'localmachines-not-running',
        `running ${program[0] ?? ''} on ${record.name}: node is not running`,
      );
    }
    return [
      'sh',
      cluster.launch,
      ...joinCgroupsOf(layout, cgroups),
      '--',
      ...enterArgv(leader, program, env),
    ];
  }
}
