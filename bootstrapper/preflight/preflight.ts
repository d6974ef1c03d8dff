import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { describeError } from '../../internal/errors/index.ts';
import { FileError, type FilePort } from '../../internal/file/index.ts';
import type { MachinePort } from '../../internal/platform/index.ts';
import { judge, PORTS, PROGRAMS, type Facts } from './checks.ts';
import { PreflightError } from './errors.ts';

const MAX_PROC_BYTES = 256 * 1024;
const PROGRAM_FOLDERS = ['/usr/sbin', '/usr/bin', '/sbin', '/bin', '/usr/local/sbin', '/usr/local/bin'];
const WRITTEN_FOLDERS = [
  '/etc/systemd/system',
  '/etc/kubernetes',
  '/opt/cluster',
  '/opt/cni/bin',
  '/var/lib/cluster',
];

/** Refuses to serve at an address that this machine does not have (any more). @throws PreflightError */
export function refuseOtherAddress(address: string, addresses: readonly string[]): void {
  if (addresses.includes(address)) return;
  const now = addresses.length === 0 ? 'no address' : addresses.join(', ');
  throw new PreflightError(
    'preflight-address-changed',
    `serving at ${address}: this machine has ${now} now`,
    { details: { address, addresses } },
  );
}

export interface PreflightPorts {
  readonly files: FilePort;
  readonly machine: MachinePort;
  freeBytes(folder: string): Promise<number>;
}

export interface PreflightOptions {
  readonly nodeName: string;
  readonly wantedAddress: string | undefined;
  /** Bytes that must be free on the file systems of these folders. */
  readonly needed: Readonly<Record<string, number>>;
}

/** Looks at the machine before anything is changed. Rejects with the first finding; its details hold all of them. */
export async function runPreflight(ports: PreflightPorts, options: PreflightOptions): Promise<void> {
  const findings = judge(await gatherFacts(ports, options));
  const [first] = findings;
  if (first === undefined) return;
  const more =
    findings.length === 1
      ? ''
      : ` (and ${findings.length - 1} more: ${findings
          .slice(1)
          .map(({ what }) => what)
          .join('; ')})`;
  throw new PreflightError(first.code, `checking the machine: ${first.what}${more}`, {
    details: { findings },
  });
}

async function gatherFacts(ports: PreflightPorts, options: PreflightOptions): Promise<Facts> {
  const { files, machine } = ports;
  const text = async (path: string): Promise<string> =>
    Buffer.from((await files.read(path, MAX_PROC_BYTES)) ?? []).toString('utf8');
  return {
    swaps: await text('/proc/swaps'),
    busyPorts: await busyPorts(),
    addresses: machine.addresses(),
    wantedAddress: options.wantedAddress,
    nodeName: options.nodeName,
    nameResolvesTo: await resolve(options.nodeName),
    room: await room(ports, options.needed),
    unwritable: await unwritable(files),
    ipForward: await text('/proc/sys/net/ipv4/ip_forward'),
    fileSystems: await text('/proc/filesystems'),
    missingPrograms: await missingPrograms(files),
  };
}

async function room(ports: PreflightPorts, needed: PreflightOptions['needed']): Promise<Facts['room']> {
  return Promise.all(
    Object.entries(needed).map(async ([folder, neededBytes]) => {
      // A folder that is not there yet lies on the file system of the nearest one that is; one that can't be asked is
      // named by the check for what can not be written.
      const there = await nearest(ports.files, folder);
      const freeBytes = await ports.freeBytes(there).catch(() => Number.MAX_SAFE_INTEGER);
      return { folder, freeBytes, neededBytes };
    }),
  );
}

async function nearest(files: FilePort, folder: string): Promise<string> {
  if (folder === '/' || (await files.stat(folder)) !== undefined) return folder;
  return nearest(files, dirname(folder));
}

async function busyPorts(): Promise<Facts['busyPorts']> {
  const probes = Object.entries(PORTS).map(async ([port, user]) => {
    const why = await probePort(Number(port));
    return why === undefined ? [] : [{ port: Number(port), why: `needed by the ${user}: ${why}` }];
  });
  return (await Promise.all(probes)).flat();
}

async function probePort(port: number): Promise<string | undefined> {
  const server = createServer();
  try {
    server.listen({ port, host: '0.0.0.0', exclusive: true });
    await once(server, 'listening');
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
      ? 'another program listens there'
      : describeError(error);
  } finally {
    server.close();
  }
}

async function resolve(name: string): Promise<readonly string[]> {
  try {
    return (await lookup(name, { all: true })).map(({ address }) => address);
  } catch {
    return []; // a name that nobody knows can't point elsewhere
  }
}

async function unwritable(files: FilePort): Promise<Facts['unwritable']> {
  const probes = WRITTEN_FOLDERS.map(async (path) => {
    try {
      await files.makeDirectory(path, 0o755);
      await files.writeAtomic(`${path}/.cluster-preflight`, '');
      await files.remove(`${path}/.cluster-preflight`);
      return [];
    } catch (error) {
      return [{ path, why: whyUnwritable(error) }];
    }
  });
  return (await Promise.all(probes)).flat();
}

function whyUnwritable(error: unknown): string {
  const code = error instanceof FileError ? error.code : undefined;
  if (code === 'file-read-only') return 'its file system is read-only';
  if (code === 'file-no-space') return 'its file system is full';
  return describeError(error);
}

async function missingPrograms(files: FilePort): Promise<readonly string[]> {
  const found = await Promise.all(
    Object.keys(PROGRAMS).map(async (program) => {
      const stats = await Promise.all(PROGRAM_FOLDERS.map((folder) => files.stat(`${folder}/${program}`)));
      return stats.some((stat) => stat !== undefined) ? [] : [program];
    }),
  );
  return found.flat();
}
