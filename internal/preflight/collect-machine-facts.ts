import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import type { Clock } from '../clock/index.ts';
import { describeError } from '../errors/index.ts';
import type { CommandRunner } from '../exec/index.ts';
import { FileError, readText, type FilePort } from '../file/index.ts';
import { type MachinePort, readMounts } from '../platform/index.ts';
import { kernelFacts } from './collect-kernel-facts.ts';
import { findUnwritable } from './file-systems.ts';
import { findWireguard } from './find-wireguard.ts';
import type { MachineFacts, PortProbe } from './machine-facts.ts';
import type { NeededSpace } from './needed-space.ts';
import {
  REQUIRED_PORTS,
  REQUIRED_PROGRAMS,
  STATE_DISK_PROGRAMS,
  WRITABLE_DIRECTORIES,
} from './node-requirements.ts';

const PROGRAM_DIRECTORIES = ['/usr/sbin', '/usr/bin', '/sbin', '/bin', '/usr/local/sbin', '/usr/local/bin'];
/**
 * The name servers of systemd-resolved. Where it runs, /etc/resolv.conf contains only a loopback address.
 */
const RESOLVED_CONF = '/run/systemd/resolve/resolv.conf';
const TIME_SERVICE_MS = 5_000;
const SECOND_TRY_MS = 300;

/** See `collectMachineFacts`. */
export interface CollectPorts {
  readonly files: FilePort;
  readonly machine: Pick<MachinePort, 'addresses'>;
  readonly clock: Clock;
  freeBytes(directory: string): Promise<number>;
  /** Runs timedatectl; without it, `clockSync` is unknown. */
  readonly commands?: CommandRunner | undefined;
}

/** A TPM, and how to find out why it is not usable. */
export interface ProbedTpm {
  readonly path: string;
  /** Resolves with undefined if the TPM responds. */
  readonly findProblem: (signal: AbortSignal) => Promise<string | undefined>;
}

/** The requirements that the machine is checked for. */
export interface CollectOptions extends NeededSpace {
  readonly nodeName: string;
  readonly configuredAddress: string | undefined;
  /** See `MachineFacts`. */
  readonly families: MachineFacts['families'];
  /** The network of pods of the cluster is encrypted. */
  readonly needsWireguard: boolean;
  readonly allowsCgroupV1: boolean;
  /** The provisioning has a state disk. */
  readonly hasStateDisk: boolean;
  /** The problem of the provisioning file, if the caller has read it. */
  readonly provisioningProblem?: string | undefined;
  /** The TPM of the provisioning; undefined without one. */
  readonly tpm?: ProbedTpm | undefined;
  /** The machine is a node: its own services listen on the ports. */
  readonly isNode: boolean;
  readonly callerClockMs: number | undefined;
  /**
   * Whether to write and remove a file in each directory, which finds full and damaged file systems. Otherwise only the mount options
   * are read, and nothing is changed.
   */
  readonly mayWriteTestFiles: boolean;
  readonly signal: AbortSignal;
}

/** Reads the facts of the machine that this program runs on. */
export async function collectMachineFacts(
  ports: CollectPorts,
  options: CollectOptions,
): Promise<MachineFacts> {
  const { files, machine, clock } = ports;
  const { nodeName, configuredAddress, families, allowsCgroupV1, hasStateDisk, callerClockMs } = options;
  return {
    ...(await kernelFacts(files)),
    wireguard: options.needsWireguard ? await findWireguard(files) : undefined,
    provisioningProblem: options.provisioningProblem,
    tpm: options.tpm && {
      path: options.tpm.path,
      problem: await options.tpm.findProblem(options.signal),
    },
    ports: options.isNode ? undefined : await tryPorts(clock, options.signal),
    addresses: machine.addresses(),
    configuredAddress,
    families,
    nodeName,
    nameResolvesTo: await resolve(nodeName),
    resolvConf: await resolvConf(files),
    diskSpace: await diskSpace(ports, options.neededBytes),
    includesBundle: options.includesBundle,
    writableDirectories: options.mayWriteTestFiles
      ? await writeTestFiles(files)
      : await readMountOptions(files),
    allowsCgroupV1,
    hasStateDisk,
    programs: await findPrograms(files),
    clockSync: await clockSync(ports, options.signal),
    nowMs: clock.nowMs(),
    callerClockMs,
  };
}

/** The resolv.conf that pods get. */
export async function resolvConf(files: FilePort): Promise<string> {
  return (await readText(files, RESOLVED_CONF)) ?? (await readText(files, '/etc/resolv.conf')) ?? '';
}

async function diskSpace(
  ports: CollectPorts,
  needed: CollectOptions['neededBytes'],
): Promise<MachineFacts['diskSpace']> {
  return Promise.all(
    Object.entries(needed).map(async ([directory, neededBytes]) => {
      // The check of writable directories reports an error of the file system, so it is ignored here.
      const freeBytes = await ports
        .freeBytes(await nearest(ports.files, directory))
        .catch(() => Number.MAX_SAFE_INTEGER);
      return { directory, freeBytes, neededBytes };
    }),
  );
}

/** A directory that does not exist yet will be on the file system of its nearest existing parent. */
async function nearest(files: FilePort, directory: string): Promise<string> {
  if (directory === '/' || (await files.stat(directory)) !== undefined) return directory;
  return nearest(files, dirname(directory));
}

async function tryPorts(clock: Clock, signal: AbortSignal): Promise<readonly PortProbe[]> {
  const entries = Object.entries(REQUIRED_PORTS).map(([port, user]) => ({ port: Number(port), user }));
  return Promise.all(
    entries.map(async ({ port, user }) => {
      if ((await tryPort(port)) === undefined) return { port, user };
      // Probes the port again after a pause, because another preflight run may listen on it for a moment, as
      // this one does.
      await clock.sleep(SECOND_TRY_MS, signal);
      return { port, user, problem: await tryPort(port) };
    }),
  );
}

/** Tries a port at all addresses. @returns why the port cannot be used; undefined: it is free */
async function tryPort(port: number, host: '::' | '0.0.0.0' = '::'): Promise<string | undefined> {
  const server = createServer();
  try {
    server.listen({ port, host, exclusive: true });
    await once(server, 'listening');
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A kernel without IPv6.
    if (host === '::' && code === 'EAFNOSUPPORT') return await tryPort(port, '0.0.0.0');
    return code === 'EADDRINUSE' ? 'in use by another program' : describeError(error);
  } finally {
    server.close();
  }
}

async function resolve(name: string): Promise<readonly string[]> {
  try {
    return (await lookup(name, { all: true })).map(({ address }) => address);
  } catch {
    return []; // an unknown name does not resolve to another machine
  }
}

async function writeTestFiles(files: FilePort): Promise<MachineFacts['writableDirectories']> {
  return Promise.all(
    WRITABLE_DIRECTORIES.map(async (path) => {
      try {
        const probe = `${await nearest(files, path)}/.cluster-preflight`;
        await files.writeAtomic(probe, '');
        await files.remove(probe);
        return { path };
      } catch (error) {
        return { path, problem: whyUnwritable(error) };
      }
    }),
  );
}

function whyUnwritable(error: unknown): string {
  const code = error instanceof FileError ? error.code : undefined;
  if (code === 'file-read-only') return 'file system is read-only';
  if (code === 'file-no-space') return 'file system is full';
  return describeError(error);
}

async function readMountOptions(files: FilePort): Promise<MachineFacts['writableDirectories']> {
  const found = findUnwritable(await readMounts(files), WRITABLE_DIRECTORIES);
  return WRITABLE_DIRECTORIES.map((path) => {
    const why = found.find(({ directories }) => directories.includes(path))?.why;
    return why === undefined ? { path } : { path, problem: `file system is ${why}` };
  });
}

async function findPrograms(files: FilePort): Promise<MachineFacts['programs']> {
  const found = [...REQUIRED_PROGRAMS, ...STATE_DISK_PROGRAMS].map(async ({ program }) => {
    const paths = PROGRAM_DIRECTORIES.map((directory) => `${directory}/${program}`);
    const stats = await Promise.all(paths.map((path) => files.stat(path)));
    return [program, paths.find((_, at) => stats[at] !== undefined)] as const;
  });
  return Object.fromEntries(await Promise.all(found));
}

async function clockSync(
  { commands }: CollectPorts,
  signal: AbortSignal,
): Promise<MachineFacts['clockSync']> {
  if (commands === undefined) return 'unknown';
  const argv = ['timedatectl', 'show', '--property=NTPSynchronized', '--value'] as const;
  const result = await commands.run({ argv, timeoutMs: TIME_SERVICE_MS, signal }).catch(() => {
    signal.throwIfAborted();
    return undefined; // no systemd, or no bus
  });
  const word = result?.stdout.trim();
  return word === 'yes' || word === 'no' ? word : 'unknown';
}
