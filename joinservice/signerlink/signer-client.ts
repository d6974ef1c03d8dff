import {
  createClient,
  localUpgrade,
  RpcChannel,
  type Client,
  type LocalPeer,
} from '../../internal/rpc/index.ts';
import type {
  KubeconfigCredentials,
  KubeconfigRequest,
  MemberCredentials,
  MemberRequest,
} from '../signer/index.ts';
import { Signer } from '../signerproto/gen/signer_pb.js';

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
  async signMember(request: MemberRequest, signal: AbortSignal): Promise<MemberCredentials> {
    const { timeMs, roles, evidence, nodeCertPem: nodeCertificatePem, ...same } = request;
    const lists = { roles: [...roles], evidence: [...evidence] };
    const asked = { ...same, ...lists, nodeCertificatePem, timeMs: BigInt(timeMs) };
    const signed = await this.#client.signMember(asked, { signal, timeoutMs: SIGN_MS });
    return {
      nodeCertPem: signed.nodeCertificatePem,
      kubernetesCaPem: signed.kubernetesCaPem,
      kubernetesClientsCaPem: signed.kubernetesClientsCaPem,
      kubeletClientCertPem: signed.kubeletClientCertificatePem,
      kubeletServingCertPem: signed.kubeletServingCertificatePem,
      controlPlaneKeys: signed.controlPlaneKeys,
    };
  }

  /** The certificate of an operator, PEM. */
  async signOperator(certificateRequest: Uint8Array, signal: AbortSignal): Promise<string> {
    const { certificatePem } = await this.#client.signOperator(
      { certificateRequest },
      { signal, timeoutMs: SIGN_MS },
    );
    return certificatePem;
  }

  /** A client certificate of the Kubernetes API for an owner. */
  async signKubeconfig(request: KubeconfigRequest, signal: AbortSignal): Promise<KubeconfigCredentials> {
    const { certificateRequest, operatorPubKeyDer: operatorPublicKey, signature } = request;
    const { certificatePem, kubernetesCaPem } = await this.#client.signKubeconfig(
      { certificateRequest, operatorPublicKey, signature },
      { signal, timeoutMs: SIGN_MS },
    );
    return { certPem: certificatePem, kubernetesCaPem };
  }
}
