/**
 * The user as a port: whoever sits in front of the CLI. A person at a terminal, a pipe, a program that reads JSON, or a
 * test. Commands say what happened by code; how it looks is decided here.
 */
export type { AppHost, ErrorReport, HostFlags } from './app-host.ts';
export { createHost, type HostOptions } from './create-host.ts';
export { formatBytes } from '../../internal/printable/index.ts';
export { formatFields, formatShare, formatTable } from './format.ts';
export type { Host, StepProgress } from './host.ts';
export { Interruption } from './interruption.ts';
export { StandardOutput, type Output, type OutputLoss } from './output.ts';
export { RecordingHost, type HostRecord } from './recording-host.ts';
export type { OutputStream, Streams } from './streams.ts';
