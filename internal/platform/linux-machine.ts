import { arch, hostname, networkInterfaces } from 'node:os';
import type { FilePort } from '../file/index.ts';

/** Facts about the machine that the agent runs on, read when asked. */
export interface MachinePort {
  hostname(): string;
  /** Bundle name of the architecture: "amd64" or "arm64". */
  architecture(): string;
  /** Addresses other machines may use, IPv4 first; no loopback, no link-local, none of container networks. */
  addresses(): readonly string[];
  /** Changes with each boot (/proc/sys/kernel/random/boot_id). */
  bootId(): Promise<string>;
}

const CONTAINER_INTERFACES = /^(lo|cni|flannel|veth|docker|kube|cilium|cali|tunl)/;

export class LinuxMachine implements MachinePort {
  readonly #files: FilePort;
  #bootId: string | undefined;

  constructor(files: FilePort) {
    this.#files = files;
  }

  hostname(): string {
    return hostname();
  }

  architecture(): string {
    const name = arch();
    return name === 'x64' ? 'amd64' : name;
  }

  addresses(): readonly string[] {
    const found = Object.entries(networkInterfaces())
      .filter(([name]) => !CONTAINER_INTERFACES.test(name))
      .flatMap(([, addresses]) => addresses ?? [])
      .filter(
        ({ internal, address }) =>
          !internal && !address.startsWith('fe80:') && !address.startsWith('169.254.'),
      );
    const byFamily = (family: string): string[] =>
      found.filter((each) => each.family === family).map((each) => each.address);
    return [...byFamily('IPv4'), ...byFamily('IPv6')];
  }

  /** Read once: it cannot change while this process lives. */
  async bootId(): Promise<string> {
    if (this.#bootId !== undefined) return this.#bootId;
    const raw = await this.#files.read('/proc/sys/kernel/random/boot_id', 4096);
    if (raw === undefined) throw new Error('reading the boot id: the kernel offers none');
    this.#bootId = Buffer.from(raw).toString('utf8').trim();
    return this.#bootId;
  }
}
