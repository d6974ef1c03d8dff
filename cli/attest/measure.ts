import type { ExitName } from '../../internal/errors/index.ts';
import {
  FIRMWARE_EVENT_LOG,
  measureMachine,
  type MachineMeasurement,
} from '../../internal/attestation/tpm/index.ts';
import { findProblemOf } from '../../internal/preflight/index.ts';
import { deviceSource, socketSource, Tpm } from '../../internal/tpm/index.ts';
import type { CommandContext } from '../app/command.ts';
import { AttestError } from './errors.ts';

/** Arguments of `cluster attest measure`. */
export interface MeasureOptions {
  /** Path of a TPM character device, or of the socket of a software TPM. */
  readonly tpm: string;
}

/**
 * `cluster attest measure`: prints the registers and the event log of this machine as reference values. The output is not
 * signed: run it only on a machine that you trust. @throws AttestError `attest-tpm-unusable`
 */
export async function runAttestMeasure(context: CommandContext, options: MeasureOptions): Promise<ExitName> {
  const { ports, host, signal } = context;
  const source = options.tpm.startsWith('/dev/')
    ? deviceSource(options.tpm)
    : socketSource({ path: options.tpm });
  await using tpm = new Tpm({ source, clock: ports.clock });
  const problem = await findProblemOf(tpm, signal);
  if (problem !== undefined)
    throw new AttestError('attest-tpm-unusable', `TPM ${options.tpm} unusable: ${problem}`);
  const measured = await measureMachine(
    { tpm, eventLog: { files: ports.files, path: FIRMWARE_EVENT_LOG } },
    signal,
  );
  const { values, eventLog = null } = measured;
  // Formatted like reference values in an attestation policy.
  const registers = Object.fromEntries(
    Object.entries(measured.registers).map(([name, { accepted }]) => [name, { expected: accepted }]),
  );
  host.result({ registers, values, eventLog }, () => render(measured));
  return 'ok';
}

function render(measured: MachineMeasurement): string {
  const registers = Object.entries(measured.registers);
  const log = measured.eventLog;
  return [
    '# Reference values of this machine, for `attestation.registers` of the cluster configuration.',
    ...(registers.length === 0 ? ['# This machine has no measurements.'] : []),
    'registers:',
    ...registers.map(([name, { accepted }]) => `  ${name}: { expected: ${accepted.join(', ')} }`),
    ...(log === undefined
      ? ['# No event log: the measured components are unknown.']
      : [`# Explained by the event log: ${log.explained.join(', ') || 'none'}`]),
    ...(log === undefined || log.unexplained.length === 0
      ? []
      : [`# Not explained by the event log: ${log.unexplained.join(', ')}`]),
    '',
  ].join('\n');
}
