import { BundleCache, type Architecture } from '../bundle/index.ts';
import type { Clock } from '../clock/index.ts';
import type { CommandRunner } from '../exec/index.ts';
import type { FilePort, StreamPort } from '../file/index.ts';
import type { HttpPort } from './download/http-port.ts';

/**
 * The inputs for building and fetching a bundle: interfaces to the system (ports), directories, and the machine that
 * builds.
 */
export interface BuildContext {
  readonly reporter: BuildReporter;
  readonly ports: {
    readonly files: FilePort;
    readonly streams: StreamPort;
    readonly commands: CommandRunner;
    readonly clock: Clock;
    readonly http: HttpPort;
  };
  /** The user's cache directory: blobs, manifests, build records, Go's own caches. */
  readonly cache: string;
  /** Directories with the sources of our own charts and programs. */
  readonly sources: { readonly charts: string; readonly programs: string };
  readonly machine: BuildMachine;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** The machine that builds. Bundles are built for its own architecture. */
export interface BuildMachine {
  readonly architecture: Architecture;
  readonly cores: number;
  readonly memoryBytes: number;
}

/** Receives the progress of a build. In the CLI, `Host` implements this interface. */
export interface BuildReporter {
  say(code: string, text: string, data?: Record<string, unknown>): void;
  step<T>(code: string, title: string, work: (progress: BuildProgress) => Promise<T>): Promise<T>;
}

/** How much of a step is done. */
export interface BuildShare {
  readonly of: number;
  readonly value: number;
  readonly unit: 'bytes' | 'packages';
}

/** Progress within one step. */
export interface BuildProgress {
  readonly update: (text: string, done?: BuildShare) => void;
}

/** The bundles of this user's cache. */
export function openBundleCache({ ports, cache }: Pick<BuildContext, 'ports' | 'cache'>): BundleCache {
  return new BundleCache({ files: ports.files, streams: ports.streams, directory: cache });
}
