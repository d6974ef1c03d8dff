import { relative } from 'node:path';
import { readText } from '../../file/index.ts';
import { LocalMachineError } from '../errors.ts';
import { output } from '../host/host-ports.ts';
import { connectVirtualNode } from '../network/cluster-network.ts';
import type { DriverOptions } from '../node/container-driver.ts';
import type { MachineDriver } from '../node/machine-driver.ts';
import { launchScript } from '../node/node-scripts.ts';
import { ensureDhcpServer, writeDhcpHost } from './dhcp-server.ts';
import { pressPowerButton } from './power-button.ts';
import { FIRMWARE, qemuArgv, VM_FILES, vmSockets, type Accelerator } from './qemu-command.ts';

const MAX_CONSOLE_BYTES = 64 * 2 ** 20;
/** The firmware starts something that it found. */
const STARTS_DISK = /BdsDxe: starting/;
const FINGERPRINT = /sha256:[0-9a-f]{64}/g;

/**
 * A virtual machine of QEMU that boots a disk of `cluster image build`, with UEFI firmware and a software TPM. Nothing on the host reads its
 * disk, and no program can be started in it: it shows its fingerprint on its console, as a real machine does.
 */
export class VirtualDriver implements MachineDriver {
  readonly limits = { bootMs: 300_000, bootPollMs: 500, powerOffMs: 240_000, repeatPowerOffMs: 5_000 };
  readonly tpmInterface = 'control';
  readonly #options: VirtualDriverOptions;

  constructor(options: VirtualDriverOptions) {
    this.#options = options;
  }

  async prepare(signal: AbortSignal): Promise<void> {
    const { host, cluster, paths, record } = this.#options;
    await host.files.writeAtomic(cluster.launch, launchScript);
    const shown = await this.#shownFingerprint();
    // A node does not show its fingerprint after its next start.
    if (shown !== undefined) await host.files.writeAtomic(`${paths.vm}/${VM_FILES.fingerprint}`, shown);
    const variables = `${paths.vm}/${VM_FILES.variables}`;
    if ((await host.files.stat(variables)) === undefined) {
      await output(host, ['cp', FIRMWARE.variables, `${variables}.new`], signal);
      await host.files.rename(`${variables}.new`, variables);
    }
    await writeDhcpHost(host, cluster.dhcp, record);
  }

  async connect(signal: AbortSignal): Promise<void> {
    const { host, layout, network, cluster, record } = this.#options;
    await connectVirtualNode(host, network, record, signal);
    await ensureDhcpServer(host, layout, { network, cluster, signal });
  }

  async program(signal: AbortSignal): Promise<{ readonly argv: readonly string[]; readonly cwd: string }> {
    const { network, paths, record, accelerator } = this.#options;
    const { name, address, vm } = record;
    if (vm === undefined) throw new TypeError(`${name} is no virtual machine`);
    const argv = qemuArgv({
      ...{ network, name, address, memoryMib: vm.memoryMib },
      accelerator: await accelerator(signal),
      tpmSocket: relative(paths.vm, `${paths.tpm}/run/tpm.sock`),
      console: relative(paths.vm, paths.console),
    });
    return { argv, cwd: paths.vm };
  }

  isRunning(pids: readonly number[]): Promise<boolean> {
    return Promise.resolve(pids.length > 0);
  }

  async hasBooted(): Promise<boolean> {
    return STARTS_DISK.test(await this.#console());
  }

  async requestPowerOff(_: readonly number[], signal: AbortSignal): Promise<void> {
    const { network, record } = this.#options;
    // Without an answer, the time limit of the shutdown applies.
    await pressPowerButton(vmSockets(network, record.name).monitor, signal);
  }

  async agentFingerprint(): Promise<string | undefined> {
    const { host, paths } = this.#options;
    const saved = `${paths.vm}/${VM_FILES.fingerprint}`;
    return (await this.#shownFingerprint()) ?? (await readText(host.files, saved));
  }

  enter(_: readonly number[], program: readonly string[]): Promise<never> {
    const { network, paths, record } = this.#options;
    const error = new LocalMachineError(
      'localmachines-no-programs',
      `running ${program[0] ?? ''} on ${record.name}: it is a virtual machine without a shell; its console is in ${paths.console} and at the socket ${vmSockets(network, record.name).console}`,
    );
    return Promise.reject(error);
  }

  async #shownFingerprint(): Promise<string | undefined> {
    return (await this.#console()).match(FINGERPRINT)?.at(-1);
  }

  async #console(): Promise<string> {
    const { host, paths } = this.#options;
    return (await readText(host.files, paths.console, MAX_CONSOLE_BYTES)) ?? '';
  }
}

/** What the driver needs besides: how QEMU runs the processor on this host. */
export interface VirtualDriverOptions extends DriverOptions {
  readonly accelerator: (signal: AbortSignal) => Promise<Accelerator>;
}
