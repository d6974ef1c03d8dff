/** One response and one command of any TPM fit (TPM_PT_MAX_COMMAND_SIZE is 4096 in every profile). */
export const MAX_MESSAGE_BYTES = 4096;
export const HEADER_BYTES = 10;

/** Bytes to and from one TPM. Not safe for concurrent use: its one user is the queue of `Tpm`. */
export interface Transport extends AsyncDisposable {
  /**
   * Sends one command and returns one response, as long as its header says. After a rejection the stream is
   * out of step and the transport must be disposed.
   */
  transmit(command: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
}

/** Where a TPM is reached. */
export interface TransportSource {
  /** For messages: `/dev/tpmrm0`. */
  readonly address: string;
  /**
   * Whether an idle connection may stay open. A software TPM serves one connection at a time, so holding it
   * keeps every other program of the machine out.
   */
  readonly canStayOpen: boolean;
  open(signal: AbortSignal): Promise<Transport>;
}
