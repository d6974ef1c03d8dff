import type { ExitName } from '../../internal/errors/index.ts';
import type { Host } from './host.ts';

/** A failure, ready to be shown: nothing in it depends on how it is shown. */
export interface ErrorReport {
  readonly code: string;
  /** The chain, once: `joining cluster: dialing 192.0.2.8:9090: timed out`. */
  readonly message: string;
  readonly fix: string;
  /** Whether the same command may be run again as it is. */
  readonly retryable: boolean;
  readonly exit: ExitName;
  readonly details: Readonly<Record<string, unknown>>;
  /** For `--verbose` and for defects. */
  readonly stack?: string;
}

/** What the app has beyond what commands see. */
export interface AppHost extends Host {
  fail(report: ErrorReport): void;
}

/** The global flags that choose a host. */
export interface HostFlags {
  readonly output: 'human' | 'json';
  readonly input: boolean;
  readonly verbose: boolean;
}
