import { createPrivateKey } from 'node:crypto';
import {
  atlsClientUpgrade,
  INIT_CONTEXT,
  REJECT_ALL_RULES,
  RotatingKeys,
} from '../../../internal/atls/index.ts';
import { MachineKeyValidator } from '../../../internal/attestation/machinekey/index.ts';
import { OwnerKeyIssuer } from '../../../internal/attestation/ownerkey/index.ts';
import { parseEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { localUpgrade, RpcChannel } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { readOwnerKey, type WorkspaceLayout } from '../../workspace/index.ts';
import { ClusterError } from '../errors.ts';

/** Where the agent of this machine answers root (bootstrapper/machineservice). */
const AGENT_SOCKET = '/run/cluster/agent.sock';

/** The agent of this very machine. */
export async function localChannel(context: CommandContext): Promise<RpcChannel> {
  const stat = await context.ports.files.stat(AGENT_SOCKET).catch(() => undefined);
  if (stat === undefined)
    throw new ClusterError(
      'cluster-join-no-agent',
      `agent socket ${AGENT_SOCKET} not found, or not accessible for this user`,
    );
  return new RpcChannel({ endpoint: `unix:${AGENT_SOCKET}`, upgrade: localUpgrade });
}

/**
 * The agent of another machine, which knows our owner key. What we tell it is no secret and what it does with it its
 * cluster decides; so any machine's key will do, unless a fingerprint is named.
 */
export async function remoteChannel(
  context: CommandContext,
  layout: WorkspaceLayout,
  machine: { readonly node: string; readonly fingerprint: string | undefined },
): Promise<RpcChannel> {
  const endpoint = parseEndpoint(machine.node, PORTS.init);
  if (endpoint === undefined)
    throw new ClusterError(
      'cluster-join-node-unreachable',
      `reading the address ${JSON.stringify(machine.node)}`,
    );
  const { files, clock } = context.ports;
  const { keyPem } = await readOwnerKey(files, layout);
  const hex = machine.fingerprint?.replace(/^sha256:/, '');
  return new RpcChannel({
    endpoint,
    upgrade: atlsClientUpgrade({
      trust: {
        trust: 'mutual',
        shows: [new OwnerKeyIssuer({ privKey: new Secret(createPrivateKey(keyPem.reveal())) })],
        accepts: [new MachineKeyValidator({ fingerprints: hex === undefined ? 'any' : new Set([hex]) })],
        rules: () => ({ ...REJECT_ALL_RULES, policy: { ...REJECT_ALL_RULES.policy, machines: 'any' } }),
      },
      context: INIT_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    }),
  });
}
