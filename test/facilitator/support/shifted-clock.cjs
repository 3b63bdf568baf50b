// Loaded before the program (NODE_OPTIONS=-r ...): a machine whose clock is wrong by CLOCK_SHIFT_MS.
const shiftMs = Number(process.env.CLOCK_SHIFT_MS ?? 0);
const Sound = Date;

class Shifted extends Sound {
  constructor(...parts) {
    if (parts.length === 0) super(Sound.now() + shiftMs);
    else super(...parts);
  }
  static now() {
    return Sound.now() + shiftMs;
  }
}

globalThis.Date = Shifted;
