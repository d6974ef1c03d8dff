/** What was seen of a machine, so that judging it is pure. */
export interface MachineFacts {
  /** Why the agent would refuse its provisioning; undefined: it would not, or there is none yet. */
  readonly provisioningProblem: string | undefined;
  /** The TPM that the provisioning names, and why it is of no use; undefined: it names none. */
  readonly tpm: { readonly path: string; readonly problem: string | undefined } | undefined;
  /** /proc/swaps */
  readonly swaps: string;
  /** Ports that were tried; undefined: the machine is a node already, and its own services listen there. */
  readonly ports: readonly PortProbe[] | undefined;
  readonly addresses: readonly string[];
  /** The address the machine is to use; undefined: the first of its own. */
  readonly configuredAddress: string | undefined;
  readonly nodeName: string;
  /** What the resolver says of the node's name; empty when it knows nothing. */
  readonly nameResolvesTo: readonly string[];
  /** What pods resolve names with: /etc/resolv.conf, or that of systemd-resolved where it runs. */
  readonly resolvConf: string;
  /** Directories on file systems that need room. */
  readonly diskSpace: readonly DiskSpace[];
  /** Directories that are written to, with what keeps the agent from it. */
  readonly writableDirectories: readonly { readonly path: string; readonly problem?: string | undefined }[];
  /** As `uname -r` says it. */
  readonly kernelRelease: string;
  /** Of `REQUIRED_MODULES`: those that the kernel has, loaded or built in. */
  readonly modules: ReadonlySet<string>;
  /** Kernel parameters by name; undefined: the kernel does not know it. */
  readonly sysctls: Readonly<Record<string, string | undefined>>;
  readonly cgroup: { readonly version: 1 | 2; readonly controllers: readonly string[] };
  /** The provisioning says `kubelet.failCgroupV1: false`. */
  readonly allowsCgroupV1: boolean;
  /** Programs of `REQUIRED_PROGRAMS` by name: where each is, undefined when it is missing. */
  readonly programs: Readonly<Record<string, string | undefined>>;
  readonly memoryBytes: number;
  readonly processors: number;
  readonly nowMs: number;
  /** The clock of who asks, at the same moment; undefined: nobody asks from elsewhere. */
  readonly callerClockMs: number | undefined;
  /** Whether a time service says that it has set the clock. */
  readonly clockSync: 'yes' | 'no' | 'unknown';
}

export interface PortProbe {
  readonly port: number;
  readonly user: string;
  /** Why nobody else can listen there; undefined: the port is free. */
  readonly problem?: string | undefined;
}

export interface DiskSpace {
  readonly directory: string;
  readonly freeBytes: number;
  readonly neededBytes: number;
}
