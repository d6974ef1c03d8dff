import { isIP } from 'node:net';
import { arch, hostname, networkInterfaces, type NetworkInterfaceInfo } from 'node:os';
import { readText, type FilePort } from '../file/index.ts';

/** Interface (port) to facts about this machine, read at each call. */
export interface MachinePort {
  hostname(): string;
  /** As bundles name it: "amd64" or "arm64"; Node's name for others. */
  architecture(): string;
  /** Addresses for other machines, IPv4 first: not loopback, link-local, or of container networks. */
  addresses(): readonly string[];
  /** Differs after each boot (/proc/sys/kernel/random/boot_id). */
  bootId(): Promise<string>;
}

const CONTAINER_INTERFACES = /^(lo|cni|flannel|veth|docker|kube|cilium|cali|tunl)/;

/** The first address of a network interface of this machine that is not link-local; undefined without one. */
export function interfaceAddress(name: string, interfaces = networkInterfaces()): string | undefined {
  return interfaces[name]?.find(isForOthers)?.address;
}

/**
 * The address of this machine with the other IP family than `address`: on the interface that has `address`, where the network
 * chart looks for it, otherwise on any interface; undefined if there is none.
 */
export function addressBeside(address: string, interfaces = networkInterfaces()): string | undefined {
  const found = Object.entries(interfaces)
    .filter(([name]) => !CONTAINER_INTERFACES.test(name))
    .map(([, addresses]) => addresses ?? []);
  const nearest = found.toSorted((a, b) => Number(has(b, address)) - Number(has(a, address)));
  return nearest.flat().find((each) => isForOthers(each) && isIP(each.address) !== isIP(address))?.address;
}

function has(addresses: readonly NetworkInterfaceInfo[], address: string): boolean {
  return addresses.some((each) => each.address === address);
}

function isForOthers({ internal, address }: NetworkInterfaceInfo): boolean {
  return !internal && !address.startsWith('fe80:') && !address.startsWith('169.254.');
}

/** The machine that this process runs on. */
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
      .filter(isForOthers);
    const byFamily = (family: string): string[] =>
      found.filter((each) => each.family === family).map((each) => each.address);
    return [...byFamily('IPv4'), ...byFamily('IPv6')];
  }

  /** Read once: it cannot change while this process runs. */
  async bootId(): Promise<string> {
    if (this.#bootId !== undefined) return this.#bootId;
    const text = await readText(this.#files, '/proc/sys/kernel/random/boot_id');
    if (text === undefined) throw new Error('reading the boot id: not supported by the kernel');
    this.#bootId = text.trim();
    return this.#bootId;
  }
}
