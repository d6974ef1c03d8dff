import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SystemClock } from '../../../internal/clock/index.ts';
import { verifyCuratorCertificate } from '../../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade, type Client } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';

interface State {
  readonly init: {
    readonly result: {
      readonly clusterId: string;
      readonly clusterCaPem: string;
      readonly ownerCertPem: string;
      readonly curatorEndpoints: readonly [string, ...string[]];
    };
  };
}

/**
 * Calls the curator with the owner's credentials, for changes that no command makes alone, such as half of a
 * removal.
 */
export class OwnerClient implements Disposable {
  readonly curator: Client<typeof Curator>;
  readonly #channel: RpcChannel;

  private constructor(channel: RpcChannel) {
    this.#channel = channel;
    this.curator = createClient(Curator, channel);
  }

  static async open(workspace: string): Promise<OwnerClient> {
    const [state, keyPem] = await Promise.all([
      readFile(join(workspace, 'state.json'), 'utf8'),
      readFile(join(workspace, 'owner-key.pem'), 'utf8'),
    ]);
    const { clusterId, clusterCaPem, ownerCertPem, curatorEndpoints } = (JSON.parse(state) as State).init
      .result;
    const trust = { caPem: clusterCaPem, clusterId, nowMs: () => Date.now() };
    const upgrade = tlsClientUpgrade({
      clock: new SystemClock(),
      identity: { certPem: ownerCertPem, keyPem: new Secret(keyPem) },
      accept: (certificate) => verifyCuratorCertificate(certificate, trust),
    });
    return new OwnerClient(new RpcChannel({ endpoint: curatorEndpoints[0], upgrade }));
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]();
  }
}

/** The idempotency key that a mutation needs. */
export function newMutation(): { readonly mutation: { readonly idempotencyKey: string } } {
  return { mutation: { idempotencyKey: crypto.randomUUID() } };
}
