import type { IpFamily } from '../endpoint/index.ts';
import type { WireguardSupport } from './find-wireguard.ts';

/** Everything about a machine that the checks need. */
export interface MachineFacts {
  /** Why the provisioning file is invalid; undefined: it is valid, or does not exist yet. */
  readonly provisioningProblem: string | undefined;
  /** The TPM of the provisioning, and why it is not usable; undefined: none is configured. */
  readonly tpm: { readonly path: string; readonly problem: string | undefined } | undefined;
  /** /proc/swaps */
  readonly swaps: string;
  /** The required ports; undefined: the machine is a node, and its own services listen on them. */
  readonly ports: readonly PortProbe[] | undefined;
  readonly addresses: readonly string[];
  /** The address of the provisioning; undefined: the first address of the machine is used. */
  readonly configuredAddress: string | undefined;
  /** The IP families of the networks of the cluster, the primary one first; empty: not known. */
  readonly families: readonly IpFamily[];
  readonly nodeName: string;
  /** The addresses that the name of the node resolves to. */
  readonly nameResolvesTo: readonly string[];
  /** The resolv.conf that pods get: /etc/resolv.conf, or the file of systemd-resolved on a machine that runs it. */
  readonly resolvConf: string;
  /** Directories with a minimum of free space. */
  readonly diskSpace: readonly DiskSpace[];
  /** False: the size of the bundle is not known, so the space for it is not a part of `diskSpace`. */
  readonly includesBundle: boolean;
  /** Directories that must be writable, and why they are not. */
  readonly writableDirectories: readonly { readonly path: string; readonly problem?: string | undefined }[];
  /** The kernel release as `uname -r` prints it. */
  readonly kernelRelease: string;
  /** The modules of `REQUIRED_MODULES` that are loaded or built in. */
  readonly modules: ReadonlySet<string>;
  /** Undefined: the network of pods does not need WireGuard, or is not known. */
  readonly wireguard: WireguardSupport | undefined;
  /** Kernel parameters by name; undefined: not available. */
  readonly sysctls: Readonly<Record<string, string | undefined>>;
  readonly cgroup: { readonly version: 1 | 2; readonly controllers: readonly string[] };
  /** The provisioning has `kubelet.failCgroupV1: false`, which only local machines may have. */
  readonly allowsCgroupV1: boolean;
  /** The provisioning has a state disk. */
  readonly hasStateDisk: boolean;
  /** The programs of `REQUIRED_PROGRAMS` and `STATE_DISK_PROGRAMS` by name: the path of each, undefined when it is missing. */
  readonly programs: Readonly<Record<string, string | undefined>>;
  readonly memoryBytes: number;
  readonly processors: number;
  readonly nowMs: number;
  /** The clock of the calling workstation at the same moment; undefined: the caller is on this machine. */
  readonly callerClockMs: number | undefined;
  /** Whether a time service has synchronized the clock. */
  readonly clockSync: 'yes' | 'no' | 'unknown';
}

/** A required port. */
export interface PortProbe {
  readonly port: number;
  /** The program that will listen on the port. */
  readonly user: string;
  /** Why no program can listen on the port; undefined: it is free. */
  readonly problem?: string | undefined;
}

/** Free and required space in a directory. */
export interface DiskSpace {
  readonly directory: string;
  readonly freeBytes: number;
  readonly neededBytes: number;
}
