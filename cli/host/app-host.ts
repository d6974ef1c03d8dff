import type { ExitName } from '../../internal/errors/index.ts';
import type { Host } from './host.ts';

/** A failure of the command, independent of the output format. */
export interface ErrorReport {
  readonly code: string;
  /** Message of the error and its causes: `joining cluster: dialing 192.0.2.8:9090: timed out`. */
  readonly message: string;
  readonly fix: string;
  /** Whether running the same command again can succeed. */
  readonly retryable: boolean;
  readonly exit: ExitName;
  readonly details: Readonly<Record<string, unknown>>;
  /** Stack trace, shown with `--verbose`. */
  readonly stack?: string;
}

/** The host as the app uses it; commands see `Host`. */
export interface AppHost extends Host {
  /** Shows the failure of the command. */
  fail(report: ErrorReport): void;
}

/** The global flags that choose a host. */
export interface HostFlags {
  readonly output: 'human' | 'json';
  readonly input: boolean;
  readonly verbose: boolean;
}
