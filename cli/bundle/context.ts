import { join } from 'node:path';
import { BlobStore, bundleName, type Architecture } from '../../internal/bundle/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort, StreamPort } from '../../internal/file/index.ts';
import type { Host } from '../host/index.ts';
import type { HttpPort } from './http.ts';

/** The world as far as bundles are concerned. */
export interface BundleContext {
  readonly host: Host;
  readonly ports: {
    readonly files: FilePort;
    readonly streams: StreamPort;
    readonly commands: CommandRunner;
    readonly clock: Clock;
    readonly http: HttpPort;
  };
  /** The cache root: blobs, manifests, records of recipes, Go's caches. */
  readonly cache: string;
  /** Where the sources of our own charts and programs lie. */
  readonly resources: { readonly charts: string; readonly programs: string };
  readonly machine: Machine;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export interface Machine {
  readonly architecture: Architecture;
  readonly cores: number;
  readonly memoryBytes: number;
}

/** The store of this user: bundles are shared by all checkouts and clusters. */
export function openStore(context: Pick<BundleContext, 'ports' | 'cache'>): BlobStore {
  const { files, streams } = context.ports;
  return new BlobStore({ files, streams, roots: [context.cache] });
}

export function manifestPath(
  context: Pick<BundleContext, 'cache' | 'machine'>,
  kubernetesVersion: string,
): string {
  return join(
    context.cache,
    'bundles',
    `${bundleName(kubernetesVersion, context.machine.architecture)}.json`,
  );
}
