/**
 * The user interface as a port: a terminal, a pipe, a program that reads JSON, or a test. Commands report messages, steps and
 * results with codes; this directory decides how they look.
 */
export { createHost } from './create-host.ts';
export type { ScreenLine, Span } from './screen-port.ts';
export type { Key } from './keys.ts';
export { formatBytes } from '../../internal/printable/index.ts';
export { formatFields, formatShare, formatTable, TEXT_WIDTH, wrapWords } from './format.ts';
export { renderListing, type Listing } from './listing.ts';
export { EVENT_OUTPUTS, OUTPUT_FORMATS } from './host.ts';
export type { AppHost, ErrorReport, Host, HostFlags, StepProgress, Streams } from './host.ts';
export { Interruption } from './interruption.ts';
export { OpenStep } from './open-step.ts';
export { StandardOutput, type Output, type OutputLoss } from './output.ts';
