import type { ClusterConfig } from '../../../internal/config/index.ts';
import type { Issuer } from '../../../internal/attestation/index.ts';
import { parseEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import type { CommandContext } from '../../app/command.ts';
import type { InitState } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { fetchFingerprint, type Machine } from './init-session.ts';

export interface MachineOptions {
  readonly node?: string | undefined;
  readonly fingerprint?: string | undefined;
}

/**
 * Which machine: flags before configuration. An init that was begun binds to its machine's fingerprint; its address may
 * be another one by now.
 */
export async function chooseMachine(
  context: CommandContext,
  what: {
    readonly config: ClusterConfig;
    readonly options: MachineOptions;
    readonly owner: Issuer;
    readonly begun: InitState | undefined;
  },
): Promise<Machine> {
  const { config, options, owner, begun } = what;
  const named = options.node ?? config.firstNode.endpoint ?? begun?.endpoint;
  if (named === undefined)
    throw new ClusterError('cluster-no-node', 'choosing the first machine: none is named');
  const endpoint = parseEndpoint(named, PORTS.init);
  if (endpoint === undefined) {
    throw new ClusterError(
      'cluster-no-node',
      `choosing the first machine: ${JSON.stringify(named)} is no address`,
    );
  }
  const wanted = options.fingerprint ?? config.firstNode.fingerprint;
  if (begun !== undefined) {
    if (wanted === undefined || wanted === begun.fingerprint)
      return { endpoint, fingerprint: begun.fingerprint };
    throw new ClusterError(
      'cluster-other-machine',
      `choosing the first machine: ${wanted} is named, the init was begun with ${begun.fingerprint}`,
    );
  }
  if (wanted === undefined && config.attestation.firstContact === 'endorsed')
    return { endpoint, fingerprint: undefined };
  if (wanted === undefined) return askPerson(context, endpoint, owner);
  if (/^sha256:[0-9a-f]{64}$/.test(wanted)) return { endpoint, fingerprint: wanted };
  throw new ClusterError(
    'cluster-no-fingerprint',
    `choosing the first machine: ${JSON.stringify(wanted)} is no fingerprint`,
  );
}

/** First contact without a known fingerprint: only a person can compare it with what the console shows. */
async function askPerson(context: CommandContext, endpoint: string, owner: Issuer): Promise<Machine> {
  const { host, signal } = context;
  if (!host.interactive) {
    throw new ClusterError(
      'cluster-no-fingerprint',
      `connecting to ${endpoint}: its fingerprint is not known`,
    );
  }
  const fingerprint = await fetchFingerprint(endpoint, { owner, clock: context.ports.clock }, signal);
  host.say('init-fingerprint-shown', `The machine at ${endpoint} shows\n  ${fingerprint}`, {
    endpoint,
    fingerprint,
  });
  if (await host.confirm('Does its console show the same fingerprint?', false))
    return { endpoint, fingerprint };
  throw new ClusterError(
    'cluster-no-fingerprint',
    `connecting to ${endpoint}: the fingerprint was not confirmed`,
  );
}
