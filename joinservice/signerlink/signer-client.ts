import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  createClient,
  localUpgrade,
  RpcChannel,
  type Client,
  type LocalPeer,
} from '../../internal/rpc/index.ts';
import {
  type GiveDiskShareRequestSchema,
  type GiveDiskShareResponse,
  Signer,
  type SignKubeconfigRequestSchema,
  type SignKubeconfigResponse,
  type SignMemberRequestSchema,
  type SignMemberResponse,
} from '../signerproto/gen/signer_pb.js';

const SIGN_MS = 10_000;

/** Client of the signer on this machine. */
export class SignerClient implements Disposable {
  readonly #channel: RpcChannel<LocalPeer>;
  readonly #client: Client<typeof Signer>;

  /** @param options `path`: the Unix socket of the signer, connected with the first call */
  constructor(options: { readonly path: string }) {
    this.#channel = new RpcChannel({ endpoint: `unix:${options.path}`, upgrade: localUpgrade });
    this.#client = createClient(Signer, this.#channel);
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]();
  }

  /** Certificates and sealed keys for a member. */
  signMember(
    request: MessageInitShape<typeof SignMemberRequestSchema>,
    signal: AbortSignal,
  ): Promise<SignMemberResponse> {
    return this.#client.signMember(request, { signal, timeoutMs: SIGN_MS });
  }

  /** The certificate of an operator, PEM. */
  async signOperator(certificateRequest: Uint8Array, signal: AbortSignal): Promise<string> {
    const options = { signal, timeoutMs: SIGN_MS };
    return (await this.#client.signOperator({ certificateRequest }, options)).certificatePem;
  }

  /** A client certificate of the Kubernetes API for an owner. */
  signKubeconfig(
    request: MessageInitShape<typeof SignKubeconfigRequestSchema>,
    signal: AbortSignal,
  ): Promise<SignKubeconfigResponse> {
    return this.#client.signKubeconfig(request, { signal, timeoutMs: SIGN_MS });
  }

  /** The cluster share of the state disk of a member, encrypted for its TPM. */
  giveDiskShare(
    request: MessageInitShape<typeof GiveDiskShareRequestSchema>,
    signal: AbortSignal,
  ): Promise<GiveDiskShareResponse> {
    return this.#client.giveDiskShare(request, { signal, timeoutMs: SIGN_MS });
  }
}
