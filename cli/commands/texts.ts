/** What `--yes` means wherever a command takes something away. */
export const YES = 'agree to what is lost; needed where there is no terminal to ask at';
