import type { ClusterConfig } from '../../../internal/config/index.ts';
import { parseEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import type { Issuer } from '../../../internal/attestation/index.ts';
import type { CommandContext } from '../../app/command.ts';
import type { InitState } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';
import { fetchFingerprint, type Machine } from './init-session.ts';

/** Flags that select the first machine. */
export interface MachineOptions {
  readonly node?: string | undefined;
  readonly fingerprint?: string | undefined;
}

/**
 * The first machine: flags take precedence over cluster.yaml. A resumed init stays with the fingerprint that it was started
 * with; the address may have changed.
 * @throws ClusterError `cluster-no-node`, `cluster-no-fingerprint`, `cluster-other-machine`
 */
export async function chooseMachine(
  context: CommandContext,
  from: {
    readonly config: ClusterConfig;
    readonly options: MachineOptions;
    readonly owner: Issuer;
    /** The init to resume. */
    readonly started: InitState | undefined;
  },
): Promise<Machine> {
  const { config, options, owner, started } = from;
  const address = options.node ?? config.firstNode.endpoint ?? started?.endpoint;
  if (address === undefined) throw new ClusterError('cluster-no-node', 'no address of the first machine');
  const endpoint = parseEndpoint(address, PORTS.init);
  if (endpoint === undefined)
    throw new ClusterError('cluster-no-node', `invalid address ${JSON.stringify(address)}`);
  const expected = options.fingerprint ?? config.firstNode.fingerprint;
  if (started !== undefined) {
    const { fingerprint } = started;
    if (expected === undefined || expected === fingerprint) return { endpoint, fingerprint };
    throw new ClusterError(
      'cluster-other-machine',
      `fingerprint ${expected} differs from ${fingerprint}, with which the init was started`,
    );
  }
  if (expected === undefined && config.attestation.firstContact === 'endorsed')
    return { endpoint, fingerprint: undefined };
  if (expected === undefined) return confirmFingerprint(context, endpoint, owner);
  if (/^sha256:[0-9a-f]{64}$/.test(expected)) return { endpoint, fingerprint: expected };
  throw new ClusterError('cluster-no-fingerprint', `invalid fingerprint ${JSON.stringify(expected)}`);
}

/** Without a known fingerprint only a person can identify the machine, by comparing it with the console. */
async function confirmFingerprint(
  context: CommandContext,
  endpoint: string,
  owner: Issuer,
): Promise<Machine> {
  const { host, ports, signal } = context;
  if (!host.interactive)
    throw new ClusterError('cluster-no-fingerprint', `fingerprint of ${endpoint} is not known`);
  const fingerprint = await fetchFingerprint(endpoint, { owner, clock: ports.clock }, signal);
  const text = `Fingerprint of the machine at ${endpoint}:\n  ${fingerprint}`;
  host.say('init-fingerprint-shown', text, { endpoint, fingerprint });
  if (await host.confirm('Does its console show the same fingerprint?', false))
    return { endpoint, fingerprint };
  throw new ClusterError('cluster-no-fingerprint', `fingerprint of ${endpoint} was not confirmed`);
}
