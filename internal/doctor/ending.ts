/** A certificate, document or support that ends at a known time, or space that is used up then. */
export interface Ending {
  /** E.g. "document policy". */
  readonly subject: string;
  readonly endsMs: number;
  /** Whether a program renews it, so that no person has to act while the cluster works. */
  readonly renewsItself: boolean;
  /** The program or command that renews it, or what a person has to do. */
  readonly renewal: string;
  /** Of a forecast: the figures that it is made from. */
  readonly figure?: string;
}

/** Everything that ends, and the parts that could not be read. */
export interface Endings {
  /** Sorted by time. */
  readonly endings: readonly Ending[];
  /** Parts that could not be read, each with the reason. */
  readonly unknown: readonly {
    readonly subject: string;
    readonly error: string;
    /** Time alone makes it known: nobody has to do anything. */
    readonly isTooEarly?: boolean;
  }[];
}
