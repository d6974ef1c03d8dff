import { familyOf, type IpFamily } from '../endpoint/index.ts';
import { readCgroupLayout, type CgroupLayout } from './host/cgroups.ts';
import { LocalMachineError } from './errors.ts';
import { readText } from '../file/index.ts';
import type { HostPorts } from './host/host-ports.ts';
import { acquireLock } from './host-lock.ts';
import { parseName, tpmScope } from './network/names.ts';
import { ensureSwitch, nextAddress, otherAddress, type NodeNetwork } from './network/cluster-network.ts';
import { LocalNode } from './node/local-node.ts';
import { writeNodeDisk } from './node/node-disk.ts';
import { clusterPaths, nodePaths, type ClusterPaths, type NodePaths } from './node/node-paths.ts';
import { parseLocalNodeRecord, type LocalNodeRecord } from './node/node-record.ts';
import { claimNumber, findNumber } from './network/cluster-numbers.ts';
import { hasCapability } from './host/proc.ts';
import { launchScript } from './node/node-scripts.ts';
import {
  provisioningFor,
  SEED_IN_NODE,
  virtualProvisioningFor,
  type DiskRecovery,
} from './node/provisioning.ts';
import { findAccelerator } from './vm/accelerator.ts';
import { ensureDhcpServer } from './vm/dhcp-server.ts';
import { VM_FILES, type Accelerator } from './vm/qemu-command.ts';
import { manufactureTpm, prepareManufacturer, readEkFingerprint } from './node/software-tpm.ts';
import { raiseInotifyLimit } from './host/inotify-limit.ts';

const CAP_SYS_RESOURCE = 24; // capability.h

/** The properties of a new node. */
interface NewNode {
  readonly name: string;
  /** The overlay's lower directories, top first: agent layer, root file system. */
  readonly layers: readonly string[];
  /** Raw Ed25519 public keys of the owners, base64. */
  readonly ownerKeys: readonly [string, ...string[]];
  /** Control planes to join, "host:port"; none for the machine on which a cluster will be initialized. */
  readonly joinEndpoints?: readonly string[];
  /** The IP families of its addresses; the first one is that of `address`. Default: IPv4. */
  readonly families?: readonly IpFamily[];
  /** An address from `addressesFor`; default: the lowest free one. */
  readonly address?: string;
  /** The `blobs` directory of a store on the host that the node may read; default: the store of the node starts empty. */
  readonly seedDirectory?: string;
  /** For fault injection: see `LocalNodeRecord`. */
  readonly procFiles?: Readonly<Record<string, string>>;
  readonly binds?: LocalNodeRecord['binds'];
  readonly diskBytes?: number;
}

/** The properties of a new virtual machine. */
interface NewVirtualNode extends Pick<NewNode, 'name' | 'ownerKeys' | 'joinEndpoints' | 'address'> {
  readonly memoryMib: number;
  readonly recovery: DiskRecovery;
  /** Writes a disk that boots an image with this provisioning file. */
  readonly writeDisk: (path: string, provisioning: string) => Promise<void>;
}

/** The local machines of one cluster. */
export class LocalCluster {
  readonly name: string;
  readonly paths: ClusterPaths;
  readonly network: NodeNetwork;
  readonly #host: HostPorts;
  readonly #layout: CgroupLayout;
  #accelerator: Promise<Accelerator> | undefined;

  constructor(options: {
    readonly host: HostPorts;
    readonly layout: CgroupLayout;
    readonly name: string;
    readonly paths: ClusterPaths;
    readonly network: NodeNetwork;
  }) {
    this.#host = options.host;
    this.#layout = options.layout;
    this.name = options.name;
    this.paths = options.paths;
    this.network = options.network;
  }

  /** Locks the machines of this cluster against other processes. */
  lock(): Promise<AsyncDisposable> {
    return lockCluster(this.paths.directory);
  }

  async nodes(): Promise<readonly LocalNode[]> {
    const names = await this.#host.files.list(this.paths.nodes);
    const nodes = await Promise.all(names.map((name) => this.findNode(name)));
    return nodes.filter((node) => node !== undefined);
  }

  async findNode(name: string): Promise<LocalNode | undefined> {
    const paths = nodePaths(this.paths, parseName(name, 'node'));
    const bytes = await this.#host.files.read(paths.record, 1_000_000);
    if (bytes === undefined) return undefined;
    return this.#node(parseLocalNodeRecord(paths.record, bytes));
  }

  async node(name: string): Promise<LocalNode> {
    const node = await this.findNode(name);
    if (node === undefined) {
      throw new LocalMachineError(
        'localmachines-node-not-found',
        `node ${JSON.stringify(name)} not found in local cluster ${this.name}`,
      );
    }
    return node;
  }

  /** The address of each of these nodes. For a node that does not exist yet, a free address for `addNode`. */
  async addressesFor(
    names: readonly string[],
    [family]: readonly IpFamily[],
  ): Promise<ReadonlyMap<string, string>> {
    const nodes = await this.nodes();
    const taken = nodes.map(({ address }) => address);
    const addresses = new Map(nodes.map(({ name, address }) => [name, address]));
    for (const name of names) {
      if (addresses.has(name)) continue;
      const address = nextAddress(this.network, taken, family);
      taken.push(address);
      addresses.set(parseName(name, 'node'), address);
    }
    return addresses;
  }

  /**
   * Creates the TPM of a machine before the machine itself is created. Returns the identity that the machine will have:
   * `sha256:…` of its endorsement key. Not to be called concurrently: the manufacturer counts its certificates in a
   * file.
   */
  async manufactureTpm(name: string, signal: AbortSignal): Promise<string> {
    const { tpm: directory } = nodePaths(this.paths, parseName(name, 'node'));
    const { launch, manufacturer } = this.paths;
    const tpm = { directory, scope: tpmScope(this.network.number, name) };
    if ((await this.#host.files.stat(launch)) === undefined)
      await this.#host.files.writeAtomic(launch, launchScript);
    await manufactureTpm(this.#host, this.#layout, { tpm, manufacturer, launch, signal });
    const fingerprint = await readEkFingerprint(this.#host, tpm);
    if (fingerprint === undefined)
      throw new LocalMachineError(
        'localmachines-boot-failed',
        `TPM of ${name} has no endorsement certificate`,
      );
    return fingerprint;
  }

  /**
   * Raises the inotify limit so that it is sufficient for this number of machines and for the machines of all other
   * clusters.
   */
  raiseInotifyLimit(machines: number, signal: AbortSignal): Promise<void> {
    return raiseInotifyLimit(this.#host, { directory: this.paths.directory, machines, signal });
  }

  /**
   * Creates the network switch of all nodes, with the DHCP server of virtual machines. To be called before several nodes are started
   * concurrently.
   */
  async ensureSwitch(signal: AbortSignal): Promise<void> {
    await ensureSwitch(this.#host, this.network, signal);
    const options = { network: this.network, cluster: this.paths, signal };
    if ((await this.nodes()).some(({ type }) => type === 'vm'))
      await ensureDhcpServer(this.#host, this.#layout, options);
  }

  /** How virtual machines run on this host. Found out once: that starts a machine, if this host may have KVM. */
  accelerator(signal: AbortSignal): Promise<Accelerator> {
    return (this.#accelerator ??= findAccelerator(this.#host, signal));
  }

  /** Creates a machine without starting it. Its record is written last: an incomplete machine is created again. */
  async addNode(options: NewNode): Promise<LocalNode> {
    const name = parseName(options.name, 'node');
    const paths = nodePaths(this.paths, name);
    const taken = (await this.nodes()).map(({ address }) => address);
    const { families = ['IPv4'] } = options;
    const address = options.address ?? nextAddress(this.network, taken, families[0]);
    const record: LocalNodeRecord = {
      version: 1,
      name,
      address,
      ...(families.length > 1 ? secondAddress(otherAddress(this.network, address)) : {}),
      layers: [...options.layers],
      binds: [...(options.binds ?? []), ...seedBind(options.seedDirectory)],
      procFiles: { ...options.procFiles },
      ...(options.diskBytes === undefined ? {} : { diskBytes: options.diskBytes }),
    };
    const status = (await readText(this.#host.files, '/proc/self/status')) ?? '';
    const provisioning = provisioningFor({
      nodeName: name,
      address: record.address,
      ownerKeys: options.ownerKeys,
      joinEndpoints: options.joinEndpoints ?? [],
      seeded: options.seedDirectory !== undefined,
      restrictOomScoreAdj: !hasCapability(status, CAP_SYS_RESOURCE),
      cgroupV1: hasV1Controllers(this.#layout),
    });
    if (options.seedDirectory !== undefined)
      await this.#host.files.makeDirectory(options.seedDirectory, 0o755);
    await this.#removeAllButTpm(paths);
    await writeNodeDisk(this.#host, { network: this.network, paths, record, provisioning });
    await this.#host.files.writeAtomic(paths.record, `${JSON.stringify(record, undefined, 2)}\n`);
    return this.#node(record);
  }

  /** Creates a virtual machine, like `addNode`. */
  async addVirtualNode(options: NewVirtualNode): Promise<LocalNode> {
    const { memoryMib, recovery, ownerKeys, joinEndpoints = [] } = options;
    const name = parseName(options.name, 'node');
    const paths = nodePaths(this.paths, name);
    const taken = (await this.nodes()).map((node) => node.address);
    const address = options.address ?? nextAddress(this.network, taken);
    const facts = { nodeName: name, address, ownerKeys, joinEndpoints, recovery };
    await this.#removeAllButTpm(paths);
    await this.#host.files.makeDirectory(paths.vm);
    const provisioning = `${JSON.stringify(virtualProvisioningFor(facts), undefined, 2)}\n`;
    await options.writeDisk(`${paths.vm}/${VM_FILES.disk}`, provisioning);
    const record: LocalNodeRecord = {
      ...{ version: 1, name, address, layers: [], binds: [], procFiles: {} },
      vm: { memoryMib },
    };
    await this.#host.files.writeAtomic(paths.record, `${JSON.stringify(record, undefined, 2)}\n`);
    return this.#node(record);
  }

  /** The TPM stays, because its identity may already be in the inventory of a cluster. */
  async #removeAllButTpm(paths: NodePaths): Promise<void> {
    for (const name of await this.#host.files.list(paths.directory)) {
      const path = `${paths.directory}/${name}`;
      if (path !== paths.tpm) await this.#host.files.remove(path);
    }
  }

  #node(record: LocalNodeRecord): LocalNode {
    return new LocalNode({
      host: this.#host,
      layout: this.#layout,
      network: this.network,
      cluster: this.paths,
      paths: nodePaths(this.paths, record.name),
      record,
      accelerator: (signal) => this.accelerator(signal),
    });
  }
}

/** Creates the directory of the cluster and claims a network for it, unless it has them. `root` is `<data>/mini`. */
export async function createCluster(
  host: HostPorts,
  options: { readonly root: string; readonly name: string; readonly signal: AbortSignal },
): Promise<LocalCluster> {
  const name = parseName(options.name, 'cluster');
  const paths = clusterPaths(`${options.root}/${name}`);
  await host.files.makeDirectory(paths.directory);
  const network = await claimNumber(host, paths.directory, options.signal);
  await prepareManufacturer(host, paths.manufacturer);
  return new LocalCluster({ host, layout: await readCgroupLayout(host), name, paths, network });
}

/** The cluster with this name; undefined when it does not exist. `root` is `<data>/mini`. */
export async function findCluster(
  host: HostPorts,
  options: { readonly root: string; readonly name: string },
): Promise<LocalCluster | undefined> {
  const name = parseName(options.name, 'cluster');
  const paths = clusterPaths(`${options.root}/${name}`);
  const network = await findNumber(host, paths.directory);
  if (network === undefined) return undefined;
  return new LocalCluster({ host, layout: await readCgroupLayout(host), name, paths, network });
}

/** All clusters below `root`. */
export async function listClusters(host: HostPorts, root: string): Promise<readonly LocalCluster[]> {
  const names = await host.files.list(root);
  const found = await Promise.all(names.map((name) => findCluster(host, { root, name })));
  return found.filter((cluster) => cluster !== undefined);
}

/** Locks the cluster whose data are in this directory. @throws LocalMachineError `localmachines-locked` */
export function lockCluster(directory: string): Promise<AsyncDisposable> {
  return acquireLock(`cluster ${directory}`);
}

function secondAddress(address: string): Pick<LocalNodeRecord, 'ipv4Address' | 'ipv6Address'> {
  return familyOf(address) === 'IPv6' ? { ipv6Address: address } : { ipv4Address: address };
}

function seedBind(directory: string | undefined): LocalNodeRecord['binds'] {
  return directory === undefined
    ? []
    : [{ source: directory, target: `${SEED_IN_NODE}/blobs`, readOnly: true }];
}

/**
 * Whether a cgroup v1 hierarchy has controllers. The hierarchy of systemd itself (`name=systemd`) has none.
 */
function hasV1Controllers(layout: CgroupLayout): boolean {
  return layout.hierarchies.some(({ version, id }) => version === 1 && !id.startsWith('name='));
}
