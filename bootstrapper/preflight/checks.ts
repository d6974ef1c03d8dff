import type { PreflightErrorCode } from './errors.ts';

/** What a check saw on the machine, so that judging it is pure. */
export interface Facts {
  /** /proc/swaps */
  readonly swaps: string;
  /** Ports of `PORTS` that can not be bound, with the reason. */
  readonly busyPorts: readonly { readonly port: number; readonly why: string }[];
  readonly addresses: readonly string[];
  /** The address the machine is to use; undefined: the first of its own. */
  readonly wantedAddress: string | undefined;
  readonly nodeName: string;
  /** What the resolver says of the node's name; empty when it knows nothing. */
  readonly nameResolvesTo: readonly string[];
  /** Folders on file systems that need room, roomiest wish first. */
  readonly room: readonly {
    readonly folder: string;
    readonly freeBytes: number;
    readonly neededBytes: number;
  }[];
  readonly unwritable: readonly { readonly path: string; readonly why: string }[];
  /** /proc/sys/net/ipv4/ip_forward */
  readonly ipForward: string;
  readonly fileSystems: string;
  readonly missingPrograms: readonly string[];
}

export interface Finding {
  readonly code: PreflightErrorCode;
  readonly what: string;
}

/** Everything that would make an init fail later, worst first. Empty: the machine is fit. */
export function judge(facts: Facts): readonly Finding[] {
  return CHECKS.flatMap((check) => check(facts));
}

type Check = (facts: Facts) => readonly Finding[];

const CHECKS: readonly Check[] = [
  ({ unwritable }) =>
    unwritable.map(({ path, why }) => ({ code: 'preflight-read-only', what: `${path}: ${why}` })),
  ({ room }) =>
    room
      .filter(({ freeBytes, neededBytes }) => freeBytes < neededBytes)
      .map(({ folder, freeBytes, neededBytes }) => ({
        code: 'preflight-disk',
        what: `the file system of ${folder} has ${mebibytes(freeBytes)} free, ${mebibytes(neededBytes)} are needed`,
      })),
  ({ swaps }) =>
    swapDevices(swaps).map((device) => ({ code: 'preflight-swap', what: `swap is on: ${device}` })),
  ({ addresses, wantedAddress }) => {
    if (addresses.length === 0)
      return [
        {
          code: 'preflight-address',
          what: 'the machine has no address but those of loopback and of single links (169.254.0.0/16, fe80::/10)',
        },
      ];
    if (wantedAddress === undefined || addresses.includes(wantedAddress)) return [];
    return [
      {
        code: 'preflight-address',
        what: `the machine is configured with ${wantedAddress} but has ${addresses.join(', ')}`,
      },
    ];
  },
  ({ nameResolvesTo, addresses, wantedAddress, nodeName }) => {
    const others = nameResolvesTo.filter(
      (address) =>
        !addresses.includes(address) &&
        address !== wantedAddress && // that it is not here is another finding
        !address.startsWith('127.') &&
        address !== '::1',
    );
    return others.length === 0 || addresses.length === 0
      ? []
      : [
          {
            code: 'preflight-hostname',
            what: `${nodeName} resolves to ${others.join(', ')}, this machine has ${addresses.join(', ')}`,
          },
        ];
  },
  ({ busyPorts }) =>
    busyPorts.map(({ port, why }) => ({ code: 'preflight-port', what: `port ${port}: ${why}` })),
  ({ ipForward }) =>
    ipForward.trim() === '1'
      ? []
      : [
          {
            code: 'preflight-kernel',
            what: `net.ipv4.ip_forward is ${JSON.stringify(ipForward.trim())}, it must be 1 (sysctl -w net.ipv4.ip_forward=1)`,
          },
        ],
  ({ fileSystems }) =>
    /\toverlay\n/.test(fileSystems)
      ? []
      : [{ code: 'preflight-kernel', what: 'the overlay file system is not available (modprobe overlay)' }],
  ({ missingPrograms }) =>
    missingPrograms.map((program) => ({
      code: 'preflight-program',
      what: `${program} is missing (Debian package ${PROGRAMS[program] ?? program})`,
    })),
];

/** What must be free before the first init, and who will listen there. */
export const PORTS: Readonly<Record<number, string>> = {
  2379: 'etcd clients',
  2380: 'etcd peers',
  6443: 'API server',
  6445: 'node-local balancer',
  9090: 'joinservice',
  9091: 'curator',
  9093: 'relay to curators',
  9094: 'relay to join services',
  10250: 'kubelet',
  10256: 'kube-proxy',
  10257: 'controller manager',
  10259: 'scheduler',
};

/** Programs that kubelet, kube-proxy and CNI plugins run, and their Debian packages. */
export const PROGRAMS: Readonly<Record<string, string>> = {
  ip: 'iproute2',
  iptables: 'iptables',
  nft: 'nftables',
  mount: 'mount',
  nsenter: 'util-linux',
  conntrack: 'conntrack',
  ethtool: 'ethtool',
};

function swapDevices(swaps: string): readonly string[] {
  return swaps
    .split('\n')
    .slice(1)
    .map((line) => line.split(/\s+/)[0] ?? '')
    .filter((device) => device !== '');
}

function mebibytes(bytes: number): string {
  return `${Math.floor(bytes / 1024 / 1024)} MiB`;
}
