import type { AttestedPeer } from '../../../internal/atls/index.ts';
import { AttestationError } from '../../../internal/attestation/index.ts';
import type { Endorsement } from '../../../internal/attestation/enrolment/index.ts';
import { attestationSettings } from '../../../internal/config/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readCollateral } from '../../attest/index.ts';
import { readOwnerKey } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { readWorkspace } from '../open-workspace.ts';
import { connectMachine } from './connect-machine.ts';
import { InitSession, ownerIssuer } from './init-session.ts';
import { MachineTrust } from './machine-trust.ts';
import { verifyMachine } from './verify-machine.ts';

/** A machine that has proved its TPM in this session. */
export interface KnownMachine {
  readonly session: InitSession;
  readonly peer: AttestedPeer;
  readonly endorsement: Endorsement;
  /** State of its enrolment, as the machine reports it. */
  readonly enrolmentState: string;
}

/**
 * Connects to the init port of a machine whose TPM is known, and verifies that it is this machine and that its software
 * is what the configuration accepts. Only the endorsement key of the TPM is compared here: its manufacturer was
 * verified at the first contact with the machine.
 * @param expected the EK: SHA-256 over its SubjectPublicKeyInfo, hex
 * @throws ClusterError `cluster-other-machine`, `cluster-machine-is-node`; errors of the attestation checks
 */
export async function withKnownMachine<T>(
  context: CommandContext,
  { endpoint, expected }: { readonly endpoint: string; readonly expected: string },
  use: (machine: KnownMachine) => Promise<T>,
): Promise<T> {
  const { ports, paths, host } = context;
  const { layout, config } = await readWorkspace(context);
  const settings = attestationSettings(config.attestation);
  const trust = new MachineTrust({
    settings: {
      ...{ ...settings, firstContact: 'endorsed' as const },
      trust: { roots: new Set(), authorities: [], pinnedKeys: new Set([expected]) },
    },
    collateral: (await readCollateral(ports.files, paths.workspace)).forValidators,
    ...{ fingerprint: undefined, known: undefined },
    lock: { shows: 'boot-baseline' },
  });
  using session = new InitSession({
    machine: { endpoint, fingerprint: undefined },
    owner: ownerIssuer(await readOwnerKey(context, layout)),
    ...{ trust, clock: ports.clock },
  });
  const { endorsement, peer, described } = await host.step(
    'machine-connect',
    `Connecting to ${endpoint}`,
    async (progress) => {
      const connected = await connectMachine(context, session, progress, true);
      const verified = await verifyMachine(context, { session, ...connected, known: undefined }).catch(
        (error: unknown) => {
          throw otherMachine(error, { endpoint, expected });
        },
      );
      return { ...connected, ...verified };
    },
  );
  if (endorsement === undefined)
    throw new ClusterError(
      'cluster-other-machine',
      `machine ${endpoint} showed ${peer.variant} evidence, expected the evidence of tpm-ek:${expected}`,
    );
  return await use({ session, peer, endorsement, enrolmentState: described.enrolmentState });
}

/**
 * Only the endorsement key of the expected TPM is trusted, so the evidence of another TPM fails because it lacks an
 * accepted certificate.
 */
function otherMachine(
  error: unknown,
  { endpoint, expected }: { readonly endpoint: string; readonly expected: string },
): unknown {
  if (!(error instanceof AttestationError) || error.code !== 'enrol-certificate-missing') return error;
  const actual = `tpm-ek:${String(error.details['actual'])}`;
  const text = `machine ${endpoint} is ${actual}, expected tpm-ek:${expected}`;
  return new ClusterError('cluster-other-machine', text, { cause: error });
}
