import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import type { Harness } from '../../machines/harness.ts';
import type { WatchedMachine } from '../init/watched-machine.ts';

/** Returns numbers in [0, 1); the same seed gives the same numbers. */
export type Random = () => number;

/** A fault that has been injected. */
export interface InjectedFault {
  /** Description of the fault for the table of results. */
  readonly what: string;
  /** Additional environment variables of the CLI. */
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** If set, the operator interrupts the command and starts it again with these arguments. */
  readonly again?: Promise<readonly string[]>;
  /** Must match the error message. */
  readonly expectedMessage: RegExp;
  /** Removes the fault. */
  undo(): Promise<void>;
}

/** A kind of fault, and the error that the CLI must report first. */
export interface FaultKind {
  readonly name: string;
  /** The error code that the CLI must report first. */
  readonly code: string;
  readonly exit: number;
  /**
   * `fresh`: injected before an init, so that the machine stays without a cluster. `begun`: injected during
   * an init. `made`: injected into a complete cluster.
   */
  readonly stage: 'fresh' | 'begun' | 'made';
  /** Flags of `mini up` for a machine that can have this fault. */
  readonly flags?: readonly string[];
  inject(on: {
    readonly bench: Harness;
    readonly machine: WatchedMachine;
    readonly random: Random;
    /** Whether the CLI has ended; a fault that has not happened by then cannot happen any more. */
    readonly over: () => boolean;
  }): Promise<InjectedFault>;
}

const pick = <T>(from: readonly [T, ...T[]], random: Random): T =>
  from[Math.floor(random() * from.length)] ?? from[0];

const HOUR = 3600;
const PORTS = [2379, 2380, 2382, 2383, 6443, 6445, 9090, 9091, 10250, 10257, 10259] as const;
const WRITTEN = [
  '/var/lib/cluster',
  '/etc/systemd/system',
  '/opt/cluster',
  '/etc/kubernetes',
  '/opt/cni/bin',
] as const;
const PROGRAMS = ['conntrack', 'ethtool', 'iptables', 'nsenter'] as const;

function clockFault(name: string, seconds: (random: Random) => number): FaultKind {
  return {
    name,
    code: 'cluster-clocks-differ',
    exit: 26,
    stage: 'fresh',
    inject: async ({ bench, random }) => {
      const shift = Math.round(seconds(random));
      const library = join(bench.directory, 'shifted-clock.so');
      const source = join(import.meta.dirname, '../harness/shifted-clock.c');
      await new ExecaRunner({ path: process.env['PATH'] ?? '' }).run({
        argv: ['gcc', '-shared', '-fPIC', '-O2', '-o', library, source, '-ldl'],
        signal: bench.signal,
      });
      return {
        what: `the workstation's clock is ${shift} s away from the machine's`,
        env: { LD_PRELOAD: library, CLOCK_SHIFT_SECONDS: String(shift) },
        expectedMessage: shift > 0 ? /behind ours/ : /ahead of ours/,
        undo: () => Promise.resolve(),
      };
    },
  };
}

/** A fault that shell commands in the machine inject and remove. */
function shellFault(
  kind: Omit<FaultKind, 'inject'>,
  choose: (
    random: Random,
    machine: WatchedMachine,
  ) => {
    readonly what: string;
    readonly expectedMessage: RegExp;
    readonly make: string;
    readonly undo: string;
    readonly args?: readonly string[];
  },
): FaultKind {
  return {
    ...kind,
    inject: async ({ machine, random }) => {
      const { make, undo, ...rest } = choose(random, machine);
      await machine.sh(make);
      return { ...rest, undo: async () => void (await machine.sh(undo)) };
    },
  };
}

/**
 * Shell commands that replace the machine's addresses with others, and restore the address and the default
 * route.
 */
function readdress(machine: WatchedMachine, instead: readonly string[]): { make: string; undo: string } {
  const gateway = machine.address.replace(/\.\d+$/, '.254');
  const make = [
    ...instead.map((address) => `ip address add ${address} dev eth0`),
    `ip address del ${machine.address}/24 dev eth0`,
    // When the first address of a network is deleted, the kernel also deletes the interface's other addresses
    // of that network.
    ...instead.map((address) => `ip address replace ${address} dev eth0`),
  ];
  const undo = [
    ...instead.map((address) => `ip address del ${address} dev eth0`),
    `ip address add ${machine.address}/24 dev eth0`,
    `ip route replace default via ${gateway}`,
  ];
  return { make: make.join('; '), undo: undo.join('; ') };
}

/** All kinds of faults. Within a stage, the faults are in the order in which a single init can run into them. */
export const FAULTS: readonly FaultKind[] = [
  clockFault('a clock hours off', (random) => (random() < 0.5 ? -1 : 1) * (2 + 20 * random()) * HOUR),
  clockFault('a clock a year off', (random) => (random() < 0.5 ? -1 : 1) * (365 + 30 * random()) * 24 * HOUR),
  {
    name: 'no address',
    code: 'preflight-address',
    exit: 22,
    stage: 'fresh',
    inject: async ({ bench, machine }) => {
      // The address of a machine without a DHCP server (RFC 3927). Its neighbours still reach it.
      const { make, undo } = readdress(machine, ['169.254.77.2/30']);
      const { network } = await bench.cluster(machine.name);
      const host = async (verb: 'add' | 'del'): Promise<void> =>
        void (await new ExecaRunner({ path: process.env['PATH'] ?? '' }).run({
          argv: ['ip', 'address', verb, '169.254.77.1/30', 'dev', `clu${network.number}`],
          signal: bench.signal,
        }));
      await host('add');
      await machine.sh(make);
      return {
        what: 'nobody gave the machine an address',
        args: ['--node', '169.254.77.2'],
        expectedMessage: /only loopback and link-local addresses/,
        undo: async () => {
          await machine.sh(undo);
          await host('del');
        },
      };
    },
  },
  shellFault(
    { name: 'another address', code: 'preflight-address', exit: 22, stage: 'fresh' },
    (random, machine) => {
      const other = machine.address.replace(/\.\d+$/, `.${100 + Math.floor(random() * 100)}`);
      return {
        what: `DHCP gave the machine ${other}`,
        args: ['--node', other],
        expectedMessage: new RegExp(other.replaceAll('.', '\\.')),
        ...readdress(machine, [`${other}/24`]),
      };
    },
  ),
  shellFault(
    { name: 'a name of another machine', code: 'preflight-hostname', exit: 23, stage: 'fresh' },
    (random) => {
      const other = `192.0.2.${1 + Math.floor(random() * 200)}`;
      return {
        what: `n1 is known as ${other}`,
        expectedMessage: new RegExp(other.replaceAll('.', '\\.')),
        make: `cp /etc/hosts /run/hosts.kept; { echo "${other} n1"; grep -v " n1$" /run/hosts.kept; } > /etc/hosts`,
        undo: 'cat /run/hosts.kept > /etc/hosts',
      };
    },
  ),
  shellFault({ name: 'a port in use', code: 'preflight-port', exit: 24, stage: 'fresh' }, (random) => {
    const port = pick(PORTS, random);
    const listen = `require('net').createServer().listen(${port}, '0.0.0.0')`;
    return {
      what: `a program listens on ${port}`,
      expectedMessage: new RegExp(`port ${port}\\b`),
      make: `systemd-run --quiet --unit=squatter /usr/lib/cluster/node -e "${listen}"; for i in $(seq 100); do ss -Hltn 2>/dev/null | grep -q ":${port} " && break; sleep 0.1; done`,
      undo: 'systemctl stop squatter',
    };
  }),
  shellFault({ name: 'swap is on', code: 'preflight-swap', exit: 25, stage: 'fresh' }, (random) => {
    const device = pick(['/dev/sda2', '/swap.img', '/dev/zram0'], random);
    return {
      what: `${device} is used for swap`,
      expectedMessage: new RegExp(device),
      // A container has the swap of its host, so the fault replaces only the kernel's answer in /proc/swaps.
      make: `printf 'Filename\\tType\\tSize\\tUsed\\tPriority\\n${device}\\tpartition\\t1048572\\t0\\t-2\\n' > /run/swaps; mount --bind /run/swaps /proc/swaps`,
      undo: 'umount /proc/swaps',
    };
  }),
  shellFault({ name: 'no disk space', code: 'preflight-disk', exit: 20, stage: 'fresh' }, (random) => {
    const size = 64 + Math.floor(random() * 200);
    return {
      what: `/var/lib/containerd is a disk of ${size} MiB`,
      expectedMessage: /not enough space in \/var\/lib\/containerd: [\d.]+ MiB free/,
      make: `mount -t tmpfs -o size=${size}m tmpfs /var/lib/containerd`,
      undo: 'umount /var/lib/containerd',
    };
  }),
  shellFault(
    { name: 'a read-only disk', code: 'preflight-read-only', exit: 21, stage: 'fresh' },
    (random) => {
      const directory = pick(WRITTEN, random);
      return {
        what: `${directory} is read-only`,
        expectedMessage: new RegExp(directory),
        make: `mkdir -p ${directory}; mount --bind ${directory} ${directory}; mount -o remount,bind,ro ${directory}`,
        undo: `umount ${directory}`,
      };
    },
  ),
  shellFault({ name: 'no forwarding', code: 'preflight-sysctl', exit: 3, stage: 'fresh' }, () => ({
    what: 'net.ipv4.ip_forward is 0',
    expectedMessage: /ip_forward/,
    make: 'echo 0 > /proc/sys/net/ipv4/ip_forward',
    undo: 'echo 1 > /proc/sys/net/ipv4/ip_forward',
  })),
  shellFault({ name: 'a missing program', code: 'preflight-program', exit: 3, stage: 'fresh' }, (random) => {
    const program = pick(PROGRAMS, random);
    return {
      what: `${program} is not installed`,
      expectedMessage: new RegExp(program),
      make: `p=$(command -v ${program}); echo "$p" > /run/hidden; mv "$p" "$p.hidden"`,
      undo: 'p=$(cat /run/hidden); mv "$p.hidden" "$p"',
    };
  }),
  {
    name: 'a foreign owner',
    code: 'cluster-owner-refused',
    exit: 4,
    stage: 'fresh',
    inject: async ({ bench, machine }) => {
      const otherWorkspace = join(bench.directory, 'other-workspace');
      await mkdir(otherWorkspace, { recursive: true });
      await bench.must('--workspace', otherWorkspace, 'config', 'generate', '--local');
      return {
        what: 'another owner’s workspace is used',
        args: ['--workspace', otherWorkspace, '--node', machine.address],
        expectedMessage: /owner/,
        undo: () => rm(otherWorkspace, { recursive: true }),
      };
    },
  },
  {
    name: 'another machine',
    code: 'cluster-other-machine',
    exit: 4,
    stage: 'fresh',
    inject: async ({ machine }) =>
      Promise.resolve({
        what: 'another machine answers than the one that is meant',
        args: ['--fingerprint', `sha256:${'0'.repeat(64)}`],
        expectedMessage: new RegExp(machine.fingerprint),
        undo: () => Promise.resolve(),
      }),
  },
  {
    name: 'a broken image',
    code: 'kubernetes-component-damaged',
    exit: 27,
    stage: 'begun',
    flags: ['--empty-store'],
    inject: ({ machine, over }) => flipWhen(machine, 'components', over),
  },
  {
    name: 'a disk that fills up',
    code: 'phases-disk-full',
    exit: 20,
    stage: 'begun',
    inject: async ({ machine, random, over }) => {
      const size = 24 + Math.floor(random() * 60);
      const content = '/var/lib/containerd/io.containerd.content.v1.content';
      // The mount must exist before containerd starts; otherwise it would hide files that containerd has
      // already written.
      const done = whenPhaseStarts(machine, 'components', over, () =>
        machine.sh(
          `mkdir -p ${content}; mount -t tmpfs -o size=${size}m tmpfs ${content}; mkdir -p ${content}/ingest ${content}/blobs`,
        ),
      );
      return {
        what: `${size} MiB are left for images when they are imported`,
        expectedMessage: /no space left/i,
        undo: async () => {
          await done;
          // Removes the fault, like a replacement by a larger disk.
          await machine.sh(`mount -o remount,size=4g ${content}`);
        },
      };
    },
  },
  {
    name: 'an address that changes',
    code: 'preflight-address-changed',
    exit: 31,
    stage: 'begun',
    inject: async ({ machine, over }) => {
      const other = machine.address.replace(/\.\d+$/, '.66');
      const { make, undo } = readdress(machine, [`${other}/24`]);
      const done = whenPhaseStarts(machine, 'components', over, () => machine.sh(make));
      return {
        what: `DHCP gives the machine ${other} while it is being made a cluster`,
        expectedMessage: new RegExp(other.replaceAll('.', '\\.')),
        again: done.then(() => ['--node', other]),
        undo: async () => {
          await done;
          await machine.sh(undo);
        },
      };
    },
  },
  shellFault(
    { name: 'a kubelet that does not start', code: 'kubernetes-kubelet-failed', exit: 28, stage: 'begun' },
    () => ({
      what: 'the kubelet ends as soon as it is started',
      expectedMessage: /kubelet/,
      make: 'mkdir -p /etc/systemd/system/kubelet.service.d; printf "[Service]\\nExecStartPre=/bin/sh -c \'echo no such cgroup driver: elephant; exit 1\'\\n" > /etc/systemd/system/kubelet.service.d/90-fault.conf; systemctl daemon-reload',
      undo: 'rm -r /etc/systemd/system/kubelet.service.d; systemctl daemon-reload',
    }),
  ),
  chartFault('a broken chart', 'charts-invalid', 29, (random) => ({
    what: 'a template does not parse',
    template: pick(['{{ if }', 'a: {{ .Values.missing.deeper }}', '{{ nosuchfunction 1 }}'], random),
    expectedMessage: /broken/,
  })),
  chartFault('a chart that times out', 'charts-timeout', 30, (random) => ({
    what: 'a pod never gets ready',
    template: neverReady(pick(['registry.invalid/nothing:1', 'registry.k8s.io/does-not-exist:v0'], random)),
    expectedMessage: /installing chart broken/,
  })),
  {
    name: 'a chart that is not there',
    code: 'charts-source-missing',
    exit: 2,
    stage: 'made',
    inject: ({ machine }) =>
      withCharts(machine, {
        chart: './nowhere',
        what: 'the chart’s directory does not exist',
        expectedMessage: /nowhere/,
      }),
  },
];

function chartFault(
  name: string,
  code: string,
  exit: number,
  choose: (random: Random) => {
    readonly what: string;
    readonly template: string;
    readonly expectedMessage: RegExp;
  },
): FaultKind {
  return {
    name,
    code,
    exit,
    stage: 'made',
    inject: async ({ machine, random }) => {
      const { what, template, expectedMessage } = choose(random);
      const directory = join(machine.workspace, 'broken');
      await mkdir(join(directory, 'templates'), { recursive: true });
      await writeFile(join(directory, 'Chart.yaml'), 'apiVersion: v2\nname: broken\nversion: 0.1.0\n');
      await writeFile(join(directory, 'templates/all.yaml'), `${template}\n`);
      const injected = await withCharts(machine, { chart: './broken', what, expectedMessage });
      return {
        ...injected,
        undo: async () => {
          await injected.undo();
          await rm(directory, { recursive: true });
        },
      };
    },
  };
}

function neverReady(image: string): string {
  const container = { name: 'never', image, imagePullPolicy: 'IfNotPresent' };
  return JSON.stringify({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'never' },
    spec: {
      selector: { matchLabels: { app: 'never' } },
      template: { metadata: { labels: { app: 'never' } }, spec: { containers: [container] } },
    },
  });
}

/** Adds a chart to cluster.yaml that cannot be installed. */
async function withCharts(
  machine: WatchedMachine,
  {
    chart,
    what,
    expectedMessage,
  }: { readonly chart: string; readonly what: string; readonly expectedMessage: RegExp },
): Promise<InjectedFault> {
  const config = join(machine.workspace, 'cluster.yaml');
  await copyFile(config, `${config}.kept`);
  const text = (await readFile(config, 'utf8')).replace(/^charts:.*(\n[ -].*)*\n?/m, '');
  await writeFile(
    config,
    `${text}\ncharts:\n  - name: broken\n    namespace: default\n    chart: ${chart}\n    timeoutSeconds: 20\n`,
  );
  return { what, expectedMessage, undo: () => copyFile(`${config}.kept`, config) };
}

/** Stops the agent at the start of a phase, runs `act`, and lets the agent continue. */
async function whenPhaseStarts(
  machine: WatchedMachine,
  phase: string,
  over: () => boolean,
  act: () => Promise<unknown>,
): Promise<void> {
  await machine.eachStart(async ({ event }) => {
    if (event.phase !== phase) return 'go on';
    const pid = await machine.signalAgent('SIGSTOP');
    try {
      await act();
    } finally {
      await machine.signalAgent('SIGCONT', pid);
    }
    return 'stop';
  }, over);
}

/**
 * Changes four bytes of an image in the store of the machine at the start of a phase, like a failing disk.
 */
function flipWhen(machine: WatchedMachine, phase: string, over: () => boolean): Promise<InjectedFault> {
  const store = '/var/lib/cluster/store/blobs/sha256';
  const done = whenPhaseStarts(machine, phase, over, () =>
    machine.sh(
      // The largest blob is an image.
      `f=$(ls -S ${store}/* | head -n 1); printf '\\377\\377\\377\\377' | dd of="$f" bs=1 seek=4096 conv=notrunc 2>/dev/null`,
    ),
  );
  return Promise.resolve({
    what: 'four bytes of an image change on the machine’s disk',
    expectedMessage: /has SHA-256/,
    undo: () => done,
  });
}
