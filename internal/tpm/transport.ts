/** Size limit of a command or response (TPM_PT_MAX_COMMAND_SIZE is 4096 in every profile). */
export const MAX_MESSAGE_BYTES = 4096;
/** Size of the header of a command or response: tag u16, size u32, code u32. */
export const HEADER_BYTES = 10;

/** Carries bytes to and from a TPM. Not safe for concurrent use; `Tpm` serializes its commands. */
export interface Transport extends AsyncDisposable {
  /** Sends a command and returns its complete response. After a rejection the transport must be disposed. */
  transmit(command: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
}

/** Opens transports to one TPM. */
export interface TransportSource {
  /** Path or address of the TPM for messages, e.g. `/dev/tpmrm0`. */
  readonly address: string;
  /**
   * Whether an idle connection may stay open. A software TPM serves one connection at a time, so that an open connection
   * blocks all other programs.
   */
  readonly canStayOpen: boolean;
  open(signal: AbortSignal): Promise<Transport>;
}
